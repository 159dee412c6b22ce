// Model: a chain of layers with a loss at its end; networks by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/layer.h"
#include "models/partition.h"

namespace unlatch::models {

/// Softmax cross entropy over `classes` logits follows the last layer, for each token where it
/// gives a sequence.
struct Model {
  std::string name;
  SampleShape input;
  int classes = 10;
  std::vector<Layer> layers;

  /// shapes[j] is the input of layer j; shapes[layers.size()] the logits. Throws Error, naming the
  /// layer that cannot take its input or is tied to what is not there.
  std::vector<SampleShape> shapes() const;
  /// Those of one stage. A tied head has weights of its own there, a copy of the embedding's table,
  /// unless the embedding is on the stage, too.
  std::vector<Layer> layers_of(const StageRange& range) const;
};

/// Throws Error unless the stages follow each other and cover the model.
void require_covers(const Model& model, std::span<const StageRange> stages);

/// By name, with keys as in `mlp:hidden=64/64`.
///   mlp       hidden=64/64: sizes of the hidden layers, each followed by a ReLU; any input
///   lenet     dropout=0; LeNet-5 with ReLU and max pooling, dropout behind its hidden linear
///             layers; 5x5 kernels from 28x28 images on (the first with padding 2), below that (the
///             8x8 digits) 3x3 kernels with padding 1
///   resnet18, 34, 50, 101, 152
///             He et al. 2016, ImageNet form with PyTorch's strides and names; width=64 (channels
///             of the stem), input=imagenet|data: 3x224x224 whatever the data (padded, channel
///             repeated), or the shape of the data
///   resnet20, 32, 44, 56, 110, 1202 and any other 6n+2 (but 50 and 152)
///             the CIFAR form of basic blocks, 1x1 convolutions on the two shortcuts that change
///             shape; norm=yes|no, width=16 (channels of the first third), input=cifar|data: the
///             same with 3x32x32. resnet164 is one of them, as in the code of Features Replay
///   preresnet164, 1001 and any other 9n+2
///             He et al., ECCV 2016: bottlenecks with pre-activation; width=16, input=cifar|data
///   wrn-28-10, wrn-16-8, .. wrn-d-k
///             Zagoruyko and Komodakis 2016: d = 6n+4 layers, k times as wide; dropout=0 between
///             the convolutions of a block, width=16 (channels of the stem), input=cifar|data
///   resnext29 and any other 9n+2
///             Xie et al. 2017, CIFAR form; cardinality=8, width=64 (channels of a group of the
///             first third), input=cifar|data
///   vgg11, 13, 16, 19
///             Simonyan and Zisserman 2015 with one linear layer; norm=yes|no, dropout=0 before
///             that layer (the paper's is 0.5), width=64, input=cifar|data
///   FILE.json whose layers are a list: see model_file.h; for images that fit into its input, and
///             as many classes as it has
///   transformer
///             decoder-only on text: layers=4, width=128, heads=4, sequence=64 (tokens of a
///             sample), tied=no|yes; see language_model.h
/// Throws Error with the closest names, or naming the layer that the input is too small for.
Model make_model(std::string_view specification, const SampleShape& input, int classes);
/// Names for messages; of the families those that are published.
std::vector<std::string_view> model_names();
/// The input a model was made for, when no data set says otherwise: 1x28x28, of a family 3x224x224
/// or 3x32x32, of a transformer its sequence, of a file its own.
SampleShape usual_input(std::string_view specification);
/// 10, of a transformer the 256 values of a byte, or as many as a model file says.
int usual_classes(std::string_view specification);

/// Initial flat weights of one layer. Depends on (seed, index of the layer in the model, element)
/// only, never on the split: uniform in +-1/sqrt(fan-in) for Convolution and Linear, bias included
/// (PyTorch's defaults), 1 and 0 for batch and layer norm; embeddings uniform with GPT-2's
/// deviation of 0.02.
std::vector<float> initial_weights(const Model& model, int layer, std::uint64_t seed);
/// Running statistics of one layer before training: means 0, variances 1.
std::vector<float> initial_statistics(const Model& model, int layer);

/// The same of the layers of a stage, one after the other; a copy of a table has the same bits.
std::vector<float> initial_weights(const Model& model, const StageRange& range, std::uint64_t seed);
std::vector<float> initial_statistics(const Model& model, const StageRange& range);

/// Parameters of the whole model; what is tied counts once.
std::int64_t parameter_count(const Model& model);

}  // namespace unlatch::models
