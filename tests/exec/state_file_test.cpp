// State files: what was saved comes back, and nothing else is taken for it.
#include "exec/state_file.h"

#include <gmock/gmock.h>

#include <limits>
#include <sstream>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

using models::TensorType;

/// What somebody keeps between tasks.
struct Keeper {
  std::vector<std::int64_t> numbers;
  double value = 0;
  std::vector<double> reals;
  Tensor weights, bytes, same_bytes, nothing;

  void visit_state(StateVisitor& visitor) {
    visitor.numbers(numbers);
    visitor.value(value);
    const StateVisitor::Scope scope(visitor, "inner");
    visitor.reals_of_any_size("reals", reals);
    visitor.parameters("weights", weights);
    visitor.tensor("bytes", bytes);
    visitor.tensor("same bytes", same_bytes);
    visitor.tensor("nothing", nothing);
  }
};

BufferPool pool;

Tensor tensor_of(std::string_view text) {
  Tensor tensor = pool.take(text.size());
  std::ranges::copy(text, tensor.data<char>());
  return tensor;
}

std::string text_of(const Tensor& tensor) {
  return {tensor.data<char>(), tensor.data<char>() + tensor.bytes()};
}

Keeper full() {
  Keeper keeper{.numbers = {1, -2, std::numeric_limits<std::int64_t>::min()},
                .value = 0.1,
                .reals = {-0.0, std::numeric_limits<double>::denorm_min()},
                .weights = tensor_of("12345678"),
                .bytes = tensor_of("odd"),
                .same_bytes = {},
                .nothing = {}};
  keeper.same_bytes = keeper.bytes;
  return keeper;
}

std::string saved(Keeper& keeper) {
  StateWriter writer(TensorType::f32);
  keeper.visit_state(writer);
  std::ostringstream out;
  writer.write(out, {{"who", "me"}});
  return std::move(out).str();
}

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

std::string refusal(std::string_view file) {
  try {
    const StateReader reader("f", bytes_of(file));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StateFile, BringsBackEveryBitAndWhatSharesMemory) {
  Keeper before = full();
  StateReader reader("f", bytes_of(saved(before)));
  EXPECT_EQ(reader.metadata().at("who"), "me");
  Keeper after;
  after.visit_state(reader);
  reader.require_end();
  EXPECT_EQ(after.numbers, before.numbers);
  EXPECT_EQ(after.value, before.value);
  ASSERT_EQ(after.reals.size(), 2u);
  EXPECT_TRUE(std::signbit(after.reals[0]));
  EXPECT_EQ(after.reals[1], before.reals[1]);
  EXPECT_EQ(text_of(after.weights), "12345678");
  EXPECT_EQ(text_of(after.bytes), "odd");
  EXPECT_EQ(after.same_bytes.data<char>(), after.bytes.data<char>());
  EXPECT_TRUE(after.nothing.empty());
  EXPECT_EQ(saved(after), saved(before));
}

/// The layout that https://github.com/huggingface/safetensors describes.
TEST(StateFile, IsASafetensorsFileWithNumbersAtTheirAlignment) {
  Keeper keeper = full();
  const std::string file = saved(keeper);
  const models::StoredTensors read = models::read_tensors(
      "f", bytes_of(file), {TensorType::f32, TensorType::f64, TensorType::i64, TensorType::u8});
  std::vector<std::string> names;
  for (const auto& tensor : read.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, testing::ElementsAre("inner/reals", "numbers", "inner/weights", "inner/bytes",
                                          "checksum"));
  EXPECT_EQ(read.tensors[2].type, TensorType::f32);
  EXPECT_EQ(read.tensors[2].shape, std::vector<std::int64_t>{2});
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  EXPECT_EQ((8 + header) % 8, 0u);
}

TEST(StateFile, NoticesEveryDamagedByteAndEveryMissingEnd) {
  Keeper keeper = full();
  const std::string file = saved(keeper);
  EXPECT_EQ(refusal(file), "");
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] ^= 1;
    EXPECT_NE(refusal(damaged), "") << "byte " << i;
    EXPECT_NE(refusal(file.substr(0, i)), "") << "first " << i;
  }
  EXPECT_NE(refusal(file + "x"), "");
}

TEST(StateFile, SaysWhatIsWrong) {
  using testing::HasSubstr;
  Keeper keeper = full();
  std::string file = saved(keeper);
  EXPECT_THAT(refusal("not a checkpoint"), HasSubstr("f: is no sound safetensors file"));
  std::ostringstream foreign;
  models::write_tensors(foreign, {});
  EXPECT_THAT(refusal(foreign.str()), HasSubstr("f: is no checkpoint of a training run"));
  std::string newer = file;
  newer.replace(newer.find("\"format_version\":\"2\""), 20, "\"format_version\":\"3\"");
  EXPECT_THAT(refusal(newer), HasSubstr("f: has the checkpoint format 3, this version reads 2"));
  file[file.size() - 5] ^= 1;  // of the last value
  EXPECT_THAT(refusal(file), HasSubstr("f: is damaged"));
}

template <class Visit>
std::string mismatch(const std::string& file, Visit visit) {
  StateReader reader("f", bytes_of(file));
  try {
    visit(reader);
    reader.require_end();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StateFile, RefusesToRestoreAnotherState) {
  Keeper keeper = full();
  const std::string file = saved(keeper);
  EXPECT_NE(mismatch(file, [](StateReader&) {}), "");
  EXPECT_EQ(mismatch(file, [](StateReader& reader) { Keeper().visit_state(reader); }), "");
  const auto with_weights = [](StateReader& reader) {
    Keeper larger;
    larger.weights = tensor_of("123456789");
    larger.visit_state(reader);
  };
  EXPECT_EQ(mismatch(file, with_weights), "f: 'inner/weights' has 8 bytes, 9 in this run");
  const auto more = [](StateReader& reader) {
    Keeper after;
    after.visit_state(reader);
    after.visit_state(reader);
  };
  EXPECT_EQ(mismatch(file, more), "f: holds fewer numbers than this run keeps");
}

}  // namespace
}  // namespace unlatch::exec
