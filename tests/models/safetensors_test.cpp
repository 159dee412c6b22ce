// Safetensors: round trip, the exact bytes, and one error for every kind of damage.
#include "models/safetensors.h"

#include <sstream>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

Bytes written(const TensorFile& file) {
  std::ostringstream out;
  write_safetensors(out, file);
  const std::string text = out.str();
  return {text.begin(), text.end()};
}

/// A file of this header and so many bytes of data.
Bytes made_of(const std::string& header, std::size_t data_bytes) {
  const Bytes length{static_cast<std::uint8_t>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  return length + Bytes(header.begin(), header.end()) + Bytes(data_bytes);
}

class Safetensors : public testing::Test {
 protected:
  TensorFile read(const Bytes& bytes) const {
    return read_safetensors(folder.write("weights.safetensors", bytes));
  }
  std::string error(const Bytes& bytes) const {
    return message_of([&] { read(bytes); });
  }

  TemporaryDirectory folder;
  const TensorFile sound{.tensors = {{"conv1.weight", {2, 1, 1, 2}, {1, -2.5F, 3e-30F, 0}},
                                     {"scalar", {}, {7}},
                                     {"a \"quoted\" name", {0}, {}}},
                         .metadata = {{"model", "lenet"}}};
};

TEST_F(Safetensors, ComeBackAsTheyWere) {
  EXPECT_EQ(read(written(sound)), sound);
  EXPECT_EQ(read(written({})), TensorFile{});
}

TEST_F(Safetensors, AreWrittenInTheFormatOfTheSpecification) {
  const Bytes bytes = written({.tensors = {{"w", {1}, {1.0F}}}, .metadata = {}});
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string padded = header + std::string(56 - header.size(), ' ');
  EXPECT_EQ(bytes, first_bytes(made_of(padded, 0) + Bytes{0, 0, 0x80, 0x3F}, 8 + 56 + 4));
}

TEST_F(Safetensors, TruncationIsFoundAtEveryLength) {
  const Bytes bytes = written(sound);
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    EXPECT_THAT(error(first_bytes(bytes, length)), HasSubstr("weights.safetensors")) << length;
  }
  EXPECT_THAT(error(bytes + Bytes{0}), HasSubstr("are there"));
  EXPECT_THAT(error({}), HasSubstr("empty"));
}

TEST_F(Safetensors, AnAbsurdHeaderLengthTakesNoMemory) {
  EXPECT_THAT(error({255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}), HasSubstr("only 2"));
}

TEST_F(Safetensors, DamagedHeadersAreRefused) {
  EXPECT_THAT(error(made_of("{", 0)), HasSubstr("no JSON"));
  EXPECT_THAT(error(made_of("[]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(error(made_of(R"({"w":3})", 0)), HasSubstr("'w' has no dtype"));
  EXPECT_THAT(error(made_of(R"({"w":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", 2)),
              HasSubstr("F16"));
  EXPECT_THAT(error(made_of(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)),
              HasSubstr("shape"));
  EXPECT_THAT(error(made_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
              HasSubstr("[0, 4]"));
  EXPECT_THAT(error(made_of(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8)),
              HasSubstr("begin at 4 instead of 0"));
  EXPECT_THAT(error(made_of(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                            R"("w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                            0)),
              HasSubstr("twice"));
  EXPECT_THAT(error(made_of(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],)"
                            R"("data_offsets":[0,0]}})",
                            0)),
              HasSubstr("shape"));
  EXPECT_THAT(error(made_of(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("no text"));
}

TEST_F(Safetensors, WhatCannotBeReadBackIsNotWritten) {
  EXPECT_THAT(message_of([] {
                written({{{"w", {1}, {1}}, {"w", {1}, {1}}}, {}});
              }),
              HasSubstr("'w'"));
  EXPECT_THAT(message_of([] { written({{{"w", {2}, {1}}}, {}}); }), HasSubstr("[2]"));
}

}  // namespace
}  // namespace unlatch::models
