#include "schedules/registry.h"

#include "schedules/error.h"
#include "schedules/schedules.h"
#include "schedules/suggest.h"

namespace unlatch {

const std::vector<Method>& methods() {
  static const std::vector<Method> all{
      bp_method(), gpipe_method(), one_f_one_b_method(), ddg_method(),
      fr_method(), fdg_method(),   dsp_method(),
  };
  return all;
}

const Method& find_method(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Method& method : methods()) {
    if (method.name == name) return method;
    names.push_back(method.name);
  }
  fail("unknown schedule '{}'.{} `unlatch schedules` lists them all", name, suggest(name, names));
}

}  // namespace unlatch
