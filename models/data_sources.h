// One function a kind of data set; load_data() chooses among them.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "models/dataset.h"

namespace unlatch::models {

/// The 8x8 UCI digits that ships with the project.
DataSplit load_digits();
/// MNIST's IDX files in a directory; `hint` ends the message when one is missing.
DataSplit load_idx(std::string name, const std::filesystem::path& directory, std::string_view hint);
/// data_batch_1..5.bin and test_batch.bin; in the directory or its cifar-10-batches-bin.
DataSplit load_cifar10(const std::filesystem::path& directory);
/// train.bin and test.bin, fine labels; in the directory or its cifar-100-binary.
DataSplit load_cifar100(const std::filesystem::path& directory);
/// images.npy and labels.npy, of which every fifth sample of a class is for the test, or both with
/// train_ and test_ in front; in the directory. As many classes as the largest label says.
DataSplit load_numpy(const std::filesystem::path& directory);
/// Bytes of a file, or of a directory's files one after the other; plain or gzip.
DataSplit load_text(const std::filesystem::path& path);
/// A pattern a class under seeded noise.
DataSplit make_synthetic(std::string_view specification);

/// The first of these files, plain or with .gz added, that the directory holds. Throws Error that
/// lists the names looked for.
std::filesystem::path find_data_file(const std::filesystem::path& directory,
                                     std::initializer_list<std::string_view> names,
                                     std::string_view hint);

}  // namespace unlatch::models
