#include "models/gradient_clip.h"

#include <string>

#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {

GradientClip GradientClip::parse(std::string_view text) {
  const Specification given("clip norm", "norm:" + std::string(text));
  given.allow_keys({"scope"});
  GradientClip clip;
  require(parse_number(given.argument(), clip.most) && std::isfinite(clip.most) && clip.most > 0,
          "clip norm '{}': it must begin with a number above 0, as in 1.5 or 1.5,scope=stage",
          text);
  clip.of_stage = given.word("scope", {"model", "stage"}) == "stage";
  return clip;
}

}  // namespace unlatch::models
