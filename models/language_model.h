// A decoder-only transformer over the bytes of a text: the shape of GPT-2 (Radford et al. 2019).
#pragma once

#include "models/model.h"
#include "models/specification.h"

namespace unlatch::models {

/// [sequence, 1, 1]: numbers of tokens.
SampleShape language_input(const Specification& given);

/// Token and position embedding; a block is two residual layers, x + attention(norm(x)) and
/// x + mlp(norm(x)), the MLP four times as wide with GELU; then a norm and a linear layer without
/// bias to the logits of every token, which with tied=yes multiplies by the table of tokens
/// (Radford et al. 2018, 2019). Each of them is a place to cut at. Keys as make_model() in
/// model.h lists them. `data` is text, of windows of any length. Throws Error.
Model language_model(const Specification& given, const SampleShape& data, int classes);

}  // namespace unlatch::models
