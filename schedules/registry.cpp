#include "schedules/registry.h"

#include "schedules/error.h"
#include "schedules/schedules.h"
#include "schedules/suggest.h"

namespace unlatch {

const std::vector<Method>& methods() {
  static const std::vector<Method> all{
      bp_method(),
      gpipe_method(),
      one_f_one_b_method(),
      ddg_method(),
      fr_method(),
      fdg_method(),
      dsp_method(),
      adl_method(),
      pipedream_method(),
      pipedream_2bw_method(),
      dgl_method(),
      dni_method(),
      dfa_method(),
      interleaved_1f1b_method(),
      looped_bfs_method(),
      zb_h1_method(),
      zb_h2_method(),
      interleaved_zb_method(),
      zb_v_method(),
      v_half_method(),
      v_min_method(),
      zb_auto_method(),
      dualpipev_method(),
      hanayo_method(),
      dualpipe_method(),
      chimera_method(),
      ssgd_method(),
      local_sgd_method(),
      asgd_method(),
      ssp_method(),
      ssd_sgd_method(),
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
