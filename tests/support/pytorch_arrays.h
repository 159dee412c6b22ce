// Numbers that PyTorch computed, as tests/torch/transformer_reference.py writes them.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace unlatch::testing_support {

/// The arrays of one case, by name.
using Arrays = std::map<std::string, std::vector<float>>;

/// All cases of tests/exec/data/transformer_pytorch.txt, by name.
inline const std::map<std::string, Arrays>& pytorch_transformers() {
  static const std::map<std::string, Arrays> cases = [] {
    std::map<std::string, Arrays> all;
    std::ifstream file(UNLATCH_SOURCE_DIR "/tests/exec/data/transformer_pytorch.txt");
    std::string line, name, array;
    std::getline(file, line);  // who wrote it
    std::size_t count = 0;
    while (file >> array) {
      if (array == "case") {
        file >> name;
        continue;
      }
      file >> count;
      std::vector<float>& values = all[name][array];
      values.resize(count);
      for (float& value : values) file >> value;
    }
    return all;
  }();
  return cases;
}

}  // namespace unlatch::testing_support
