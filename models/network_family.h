// NetworkFamily: networks whose names hold numbers, as "vgg19" or "wrn-28-10"; one file a family.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "models/model.h"
#include "models/specification.h"

namespace unlatch::models {

struct NetworkFamily {
  /// Throws Error with the nearest names for a name of this form that no network has.
  bool (*has)(std::string_view name);
  SampleShape (*usual_input)(std::string_view name);
  /// As make_model() in model.h describes it.
  Model (*make)(const Specification& given, const SampleShape& data, int classes);
};

NetworkFamily resnet_family();
NetworkFamily vgg_family();
NetworkFamily resnext_family();
NetworkFamily wide_resnet_family();
NetworkFamily preactivation_resnet_family();

/// Nothing for a name of none. Throws Error like NetworkFamily::has.
std::optional<NetworkFamily> family_of(std::string_view name);

/// The number behind a prefix, written without leading zeros; nothing for a name of another form.
std::optional<int> number_behind(std::string_view prefix, std::string_view name);

/// "'resnet20' or 'resnet26'": the next depths in [least, most] on both sides, or the depth itself.
std::string nearest_depths(int depth, int least, int most, const std::function<bool(int)>& is_depth,
                           const std::function<std::string(int)>& name);

inline constexpr SampleShape cifar_input{3, 32, 32};
inline SampleShape usual_cifar_input(std::string_view) { return cifar_input; }

/// The shape of the data (input=data), or the network's own, into which the data must fit.
SampleShape chosen_input(const Specification& given, const SampleShape& own, const char* own_word,
                         const SampleShape& data);
inline SampleShape chosen_cifar_input(const Specification& given, const SampleShape& data) {
  return chosen_input(given, cifar_input, "cifar", data);
}

}  // namespace unlatch::models
