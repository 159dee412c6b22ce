// Folders of .npy files: sound ones of every type, and one clear error for every kind of damage.
// The bytes are those of the format's description, written by hand.
#include <algorithm>
#include <cstring>

#include "models/dataset.h"
#include "models/numpy_file.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Bytes text(std::string_view characters) { return {characters.begin(), characters.end()}; }

/// Filled up with blanks so that the array begins at a multiple of 64, as numpy.save does.
Bytes npy(const std::string& dictionary, const Bytes& array, int version = 1) {
  const std::size_t before = version == 1 ? 10 : 12;
  std::string header = dictionary;
  while ((before + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  Bytes file = text("\x93NUMPY") + Bytes{static_cast<std::uint8_t>(version), 0};
  for (std::size_t i = 0; i < before - 8; ++i) {
    file.push_back(static_cast<std::uint8_t>(header.size() >> (8 * i)));
  }
  return file + text(header) + array;
}

std::string dictionary(std::string_view type, std::string_view shape) {
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
}

template <class T>
Bytes numbers(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

constexpr NumpyUse any_use{"these are numbers", "uint8"};

/// Six images of 1x2 pixels, all but the second of class 0.
class NumpyFolder : public testing::Test {
 protected:
  NumpyFolder() {
    images(npy(dictionary("|u1", "(6, 1, 2)"), pixels));
    labels(npy(dictionary("<i8", "(6,)"), numbers<std::int64_t>({0, 1, 0, 0, 0, 0})));
  }
  void images(const Bytes& file) const { folder.write("images.npy", file); }
  void labels(const Bytes& file) const { folder.write("labels.npy", file); }
  DataSplit load() const { return load_data(folder.as_data("numpy")); }
  std::string error() const {
    return message_of([&] { load(); });
  }
  std::string error_with_images(const Bytes& file) const {
    images(file);
    return error();
  }
  std::string error_with_labels(const Bytes& file) const {
    labels(file);
    return error();
  }

  const Bytes pixels{0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51};
  TemporaryDirectory folder;
};

TEST_F(NumpyFolder, SetsEveryFifthOfAClassAside) {
  const DataSplit data = load();
  EXPECT_EQ(data.train.shape, (SampleShape{1, 1, 2}));
  EXPECT_EQ(data.train.classes, 2);
  EXPECT_THAT(data.train.pixels, ElementsAre(0, 1, 10, 11, 20, 21, 30, 31, 40, 41));
  EXPECT_THAT(data.train.labels, ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(data.test.pixels, ElementsAre(50, 51));
  EXPECT_THAT(data.test.labels, ElementsAre(0));
  EXPECT_EQ(data.test.mean, data.train.mean);
}

TEST_F(NumpyFolder, SetsSamplesOfEveryClassAsideInAnyOrder) {
  Bytes in_turn, sorted;
  for (int n = 0; n < 50; ++n) {
    in_turn.push_back(static_cast<std::uint8_t>(n % 5));
    sorted.push_back(static_cast<std::uint8_t>(n / 10));
  }
  images(npy(dictionary("|u1", "(50, 1, 1)"), Bytes(50)));
  for (const Bytes& order : {in_turn, sorted}) {
    labels(npy(dictionary("|u1", "(50,)"), order));
    const DataSplit data = load();
    for (const int label : {0, 1, 2, 3, 4}) {
      EXPECT_EQ(std::ranges::count(data.test.labels, label), 2);
      EXPECT_EQ(std::ranges::count(data.train.labels, label), 8);
    }
  }
}

TEST_F(NumpyFolder, TakesFilesOfTheTwoPartsAsTheyAre) {
  std::filesystem::remove(folder.path() / "images.npy");
  folder.write("train_images.npy", npy(dictionary("|u1", "(2, 3, 1, 2)"), pixels));
  folder.write("train_labels.npy", npy(dictionary("|u1", "(2,)"), {4, 0}));
  folder.write("test_images.npy.gz",
               gzipped(npy(dictionary("|u1", "(1, 3, 1, 2)"), first_bytes(pixels, 6), 2)));
  folder.write("test_labels.npy", npy(dictionary("<u2", "(1,)"), numbers<std::uint16_t>({7})));
  const DataSplit data = load();
  EXPECT_EQ(data.train.shape, (SampleShape{3, 1, 2}));
  EXPECT_EQ(data.train.pixels, pixels);
  EXPECT_THAT(data.train.labels, ElementsAre(4, 0));
  EXPECT_EQ(data.test.pixels, first_bytes(pixels, 6));
  EXPECT_EQ(data.train.classes, 8) << "the largest label of either part and one";
  EXPECT_EQ(data.test.classes, 8);
  folder.write("images.npy", npy(dictionary("|u1", "(6, 1, 2)"), pixels));
  EXPECT_THAT(error(), HasSubstr("both images.npy and train_images.npy"));
}

/// Mean 3, deviation 1; the test part is normalised by them too.
TEST_F(NumpyFolder, NormalisesFloatsByTheirOwnMeanAndDeviation) {
  images(npy(dictionary("<f4", "(5, 1, 1)"), numbers<float>({2, 4, 2, 4, 5})));
  labels(npy(dictionary("|i1", "(5,)"), Bytes(5)));
  const DataSplit data = load();
  EXPECT_TRUE(data.train.pixels.empty());
  std::vector<float> out(2);
  data.train.copy_sample(1, {2, 1, 1}, out);
  EXPECT_THAT(out, ElementsAre(1, 1)) << "one channel for two";
  std::vector<float> one(1);
  data.test.copy_sample(0, {1, 1, 1}, one);
  EXPECT_FLOAT_EQ(one[0], 2);
}

TEST(NumpyFile, ReadsWholeNumbersOfEveryType) {
  TemporaryDirectory folder;
  const auto read = [&](const char* type, const char* shape, const Bytes& array) {
    return whole_numbers(
        read_numpy(folder.write("a.npy", npy(dictionary(type, shape), array)), any_use));
  };
  EXPECT_THAT(read("|i1", "(2,)", {0xFF, 3}), ElementsAre(-1, 3));
  EXPECT_THAT(read("|u1", "(2,)", {0xFF, 3}), ElementsAre(255, 3));
  EXPECT_THAT(read("<i2", "(1,)", {0xFE, 0xFF}), ElementsAre(-2));
  EXPECT_THAT(read("<u2", "(1,)", {0xFE, 0xFF}), ElementsAre(65534));
  EXPECT_THAT(read("<i4", "(1, 2)", numbers<std::int32_t>({-70000, 70000})),
              ElementsAre(-70000, 70000));
  EXPECT_THAT(read("<u4", "()", numbers<std::uint32_t>({4000000000U})), ElementsAre(4000000000));
  EXPECT_THAT(read("<i8", "(1,)", numbers<std::int64_t>({-5})), ElementsAre(-5));
}

/// The order of the keys is free, as are blanks and the last comma.
TEST(NumpyFile, ReadsTheHeaderAsPythonWould) {
  TemporaryDirectory folder;
  const auto path = folder.write(
      "a.npy", npy("{ 'shape':(2 , 1),'descr':'|u1', 'fortran_order' : False}", {5, 6}));
  const NumpyArray array = read_numpy(path, any_use);
  EXPECT_THAT(array.shape, ElementsAre(2, 1));
  EXPECT_THAT(array.bytes, ElementsAre(5, 6));
}

TEST_F(NumpyFolder, RefusesArraysThatItCannotReadWithTheReason) {
  const auto image = [&](std::string_view type, std::string_view shape) {
    return error_with_images(npy(dictionary(type, shape), pixels));
  };
  EXPECT_THAT(image(">f4", "(3, 1, 1)"), AllOf(HasSubstr("images.npy"), HasSubstr("big endian")));
  EXPECT_THAT(image("<f8", "(1, 1, 1)"),
              AllOf(HasSubstr("<f8"), HasSubstr("astype('float32')"), Not(HasSubstr("int64"))));
  EXPECT_THAT(image("|b1", "(6, 1, 2)"), HasSubstr("|b1"));
  EXPECT_THAT(image("<i4", "(3, 1, 1)"),
              AllOf(HasSubstr("images are uint8 or float32"), HasSubstr("astype('float32')")));
  EXPECT_THAT(image("|u1", "(12,)"), AllOf(HasSubstr("12"), HasSubstr("samples x height x width")));
  EXPECT_THAT(image("|u1", "(1, 12, 1, 1, 1)"), HasSubstr("1x12x1x1x1"));
  EXPECT_THAT(image("|u1", "(0, 1, 2)"), HasSubstr("empty or too large"));
  EXPECT_THAT(image("|u1", "(4611686018427387904, 4, 4)"), HasSubstr("empty or too large"));
  EXPECT_THAT(image("|u1", "(1, 1, 5000)"), HasSubstr("images.npy"));
  EXPECT_THAT(image("|u1", "(5, 1, 2)"), HasSubstr("images.npy"));  // two bytes are left
  EXPECT_THAT(image("|u1", "(7, 1, 2)"), HasSubstr("images.npy"));  // two are missing
  EXPECT_THAT(error_with_images(
                  npy("{'descr': '|u1', 'fortran_order': True, 'shape': (6, 1, 2), }", pixels)),
              HasSubstr("ascontiguousarray"));
  EXPECT_THAT(error_with_images(npy("{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': "
                                    "(6, 1, 2), }",
                                    pixels)),
              HasSubstr("records"));
  const Bytes nan = npy(dictionary("<f4", "(6, 1, 1)"),
                        numbers<float>({1, 2, 3, std::numeric_limits<float>::quiet_NaN(), 5, 6}));
  EXPECT_THAT(error_with_images(nan), HasSubstr("a number of sample 3 is nan"));
}

TEST_F(NumpyFolder, RefusesDamagedHeaders) {
  const Bytes good = npy(dictionary("|u1", "(6, 1, 2)"), pixels);
  for (std::size_t size = 1; size < good.size(); size += 5) {
    EXPECT_THAT(error_with_images(first_bytes(good, size)), HasSubstr("images.npy")) << size;
  }
  for (std::size_t at = 0; at < 60; ++at) {
    Bytes damaged = good;
    damaged[at] ^= 0x15;
    images(damaged);
    try {
      load();
      ADD_FAILURE() << "byte " << at << " may be anything";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("images.npy"));
    }
  }
  Bytes third = good;
  third[6] = 3;
  EXPECT_THAT(error_with_images(third), HasSubstr("version 3.0"));
  for (const char* header :
       {"{'descr': '|u1', 'fortran_order': False}", "", "[]",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 1, 2), 'more': 1}",
        "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (6, 1, 2)}",
        "{'descr': '|u1', 'fortran_order': false, 'shape': (6, 1, 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-6, 1, 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 1, 2)} x",
        "{'descr': '|u1' 'fortran_order': False, 'shape': (6, 1, 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6; 1, 2)}"}) {
    EXPECT_THAT(error_with_images(npy(header, pixels)), HasSubstr("its header")) << header;
  }
}

TEST_F(NumpyFolder, RefusesLabelsThatAreNone) {
  EXPECT_THAT(error_with_labels(npy(dictionary("<f4", "(6,)"), Bytes(24))),
              AllOf(HasSubstr("labels.npy"), HasSubstr("<f4"), HasSubstr("astype('int64')")));
  EXPECT_THAT(error_with_labels(npy(dictionary("<f8", "(6,)"), Bytes(48))),
              AllOf(HasSubstr("labels.npy"), HasSubstr("<f8"), HasSubstr("astype('int64')"),
                    Not(HasSubstr("float32"))));
  EXPECT_THAT(error_with_labels(npy(dictionary("|i1", "(6,)"), {0, 1, 0xFF, 0, 1, 2})),
              HasSubstr("label -1 of sample 2"));
  EXPECT_THAT(error_with_labels(npy(dictionary("|u1", "(6, 1)"), {0, 1, 2, 0, 1, 2})),
              HasSubstr("6x1"));
  EXPECT_THAT(error_with_labels(npy(dictionary("|u1", "(5,)"), {0, 1, 2, 0, 1})),
              AllOf(HasSubstr("6 images"), HasSubstr("5 labels")));
}

TEST_F(NumpyFolder, SaysWhatIsMissing) {
  std::filesystem::remove(folder.path() / "labels.npy");
  EXPECT_THAT(error(), AllOf(HasSubstr("labels.npy"), HasSubstr("train_images.npy")));
  std::filesystem::remove(folder.path() / "images.npy");
  EXPECT_THAT(error(), HasSubstr("images.npy and labels.npy"));
  EXPECT_THAT(message_of([] { load_data("numpy"); }), HasSubstr("numpy:DIR"));
}

TEST_F(NumpyFolder, WantsEnoughForATest) {
  images(npy(dictionary("|u1", "(4, 1, 2)"), first_bytes(pixels, 8)));
  labels(npy(dictionary("|u1", "(4,)"), {0, 1, 0, 1}));
  EXPECT_THAT(error(), HasSubstr("no class has 5 samples"));
}

}  // namespace
}  // namespace unlatch::models
