#include "models/network_family.h"

#include <algorithm>

#include "schedules/error.h"

namespace unlatch::models {

std::optional<NetworkFamily> family_of(std::string_view name) {
  for (const NetworkFamily& family : {resnet_family(), vgg_family(), resnext_family(),
                                      wide_resnet_family(), preactivation_resnet_family()}) {
    if (family.has(name)) return family;
  }
  return std::nullopt;
}

std::optional<int> number_behind(std::string_view prefix, std::string_view name) {
  int number = 0;
  if (!name.starts_with(prefix) || !parse_whole(name.substr(prefix.size()), number) || number < 0 ||
      name != fmt::format("{}{}", prefix, number)) {
    return std::nullopt;
  }
  return number;
}

std::string nearest_depths(int depth, int least, int most, const std::function<bool(int)>& is_depth,
                           const std::function<std::string(int)>& name) {
  int below = std::min(depth, most);
  while (below >= least && !is_depth(below)) --below;
  int above = std::max(depth, least);
  while (above <= most && !is_depth(above)) ++above;
  if (below == above) return fmt::format("'{}'", name(depth));
  if (below < least) return fmt::format("'{}'", name(above));
  if (above > most) return fmt::format("'{}'", name(below));
  return fmt::format("'{}' or '{}'", name(below), name(above));
}

SampleShape chosen_input(const Specification& given, const SampleShape& own, const char* own_word,
                         const SampleShape& data) {
  if (given.word("input", {own_word, "data"}) == "data") return data;
  require((data.channels == 1 || data.channels == own.channels) && data.height <= own.height &&
              data.width <= own.width,
          "model {}: takes images of 1 or 3 channels and at most {}x{}, not {}x{}x{}; "
          "{}:input=data takes any",
          given.name(), own.height, own.width, data.channels, data.height, data.width,
          given.name());
  return own;
}

}  // namespace unlatch::models
