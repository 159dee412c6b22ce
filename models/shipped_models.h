// The shapes of transformers that come with the program (data/models), made into source at
// configure time.
#pragma once

#include <span>
#include <string_view>

namespace unlatch::models {

struct ShippedModel {
  std::string_view name;
  std::string_view json;
};

std::span<const ShippedModel> shipped_models();

}  // namespace unlatch::models
