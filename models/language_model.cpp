#include "models/language_model.h"

#include "schedules/error.h"

namespace unlatch::models {
namespace {

Layer linear(const char* name, int out) { return {name, Linear{.out_features = out}}; }

Layer attention_part(int block, int width, int heads) {
  return {fmt::format("block{}.attention", block),
          Residual{.body = {{"norm", LayerNorm{}},
                            linear("qkv", 3 * width),
                            {"heads", CausalSelfAttention{.heads = heads}},
                            linear("projection", width)},
                   .shortcut = {}}};
}

Layer mlp_part(int block, int width) {
  return {fmt::format("block{}.mlp", block), Residual{.body = {{"norm", LayerNorm{}},
                                                               linear("expand", 4 * width),
                                                               {"gelu", Gelu{}},
                                                               linear("contract", width)},
                                                      .shortcut = {}}};
}

}  // namespace

SampleShape language_input(const Specification& given) {
  return {given.whole("sequence", 64, 1, 1 << 16), 1, 1, true};
}

Model language_model(const Specification& given, const SampleShape& data, int classes) {
  given.allow_keys({"layers", "width", "heads", "sequence", "tied"});
  require(data.is_sequence, "model transformer: takes text (--data text:FILE), not images");
  const int width = given.whole("width", 128, 1, 1 << 16);
  const int heads = given.whole("heads", 4, 1, 1 << 16);
  require(width % heads == 0, "model transformer: width {} does not split among {} heads", width,
          heads);
  Model model{.name = "transformer",
              .input = language_input(given),
              .classes = classes,
              .layers = {{"embedding", Embedding{.vocabulary = classes, .width = width}}}};
  for (int block = 1; block <= given.whole("layers", 4, 1, 1000); ++block) {
    model.layers.push_back(attention_part(block, width, heads));
    model.layers.push_back(mlp_part(block, width));
  }
  model.layers.push_back({"norm", LayerNorm{}});
  const bool tied = given.word("tied", {"no", "yes"}) == "yes";
  model.layers.push_back({"head", Linear{.out_features = classes, .bias = false, .tied = tied}});
  return model;
}

}  // namespace unlatch::models
