// Transformer: the shape of a decoder-only language model, and what each of its layers costs.
//
// A shape is for simulation: nothing here has weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/layer_facts.h"

namespace unlatch::models {

/// How the scores of the attention are kept for B.
enum class Attention : std::uint8_t {
  full,       ///< softmax and its dropout stay
  selective,  ///< they are computed again in I (Korthikanti et al. 2022, section 5)
  flash,      ///< they never leave the chip (Dao, FlashAttention-2, 2023: five products in I)
};

struct TransformerShape {
  std::string name;
  int layers = 1;  ///< blocks of attention and MLP
  int width = 1;
  int heads = 1;
  int kv_heads = 1;  ///< fewer than heads: grouped queries
  int mlp_width = 4;
  int sequence = 1;  ///< tokens of one sample
  int vocabulary = 1;
  int positions = 0;       ///< rows of a learned table; 0: rotary, without parameters
  bool gated = false;      ///< MLP of three matrices, down(silu(gate x) * up x)
  bool layer_norm = true;  ///< two vectors each; otherwise RMSNorm, one
  bool biases = true;
  bool tied = true;  ///< the head multiplies by the embedding
  bool dropout = true;
  Attention attention = Attention::full;
};

/// Shape from a JSON file (data/models): name, layers, width, heads, sequence, vocabulary, and
/// where it differs from the default here, which is a GPT's: kv_heads (heads), mlp_width (4 width),
/// mlp plain|gated, norm layer|rms, biases (true), dropout (true), positions learned|rotary (as
/// many learned ones as `sequence`), head tied|untied. `text` is the whole file, `place` its name
/// for messages. Throws Error with the place of what is wrong.
TransformerShape parse_transformer(const std::string& text, const std::string& place);

/// "gpt2:sequence=512,attention=flash", or FILE.json in the place of the name.
bool names_transformer(std::string_view specification);
std::vector<std::string_view> transformer_names();
/// Throws Error for a name of those, which have no weights.
void require_trainable(std::string_view specification);
/// `read` gives the text of a file. Throws Error for what is neither, with the closest names.
TransformerShape make_transformer(std::string_view specification,
                                  std::string (*read)(const std::string& path));

/// Layers: embedding, blocks, final norm, head. FLOPs are those of the products alone, as they are
/// counted everywhere: 24 h^2 + 4 s h a token and block of a GPT forward, no causal half left out
/// (Narayanan et al., SC 2021, appendix). I and W repeat the products with weights, I twice those
/// of the scores. Tapes are those of Korthikanti et al. 2022 (arXiv 2205.05198), equation 2 and
/// section 4.3: s h (34 + 5 a s / h) bytes a block of a GPT in two bytes a number; what W needs
/// after I is 32 s h (Qi et al., ICLR 2024, table 1).
ModelFacts facts_of(const TransformerShape& shape, double element_bytes);

}  // namespace unlatch::models
