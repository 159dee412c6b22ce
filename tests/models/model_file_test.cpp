// Models as JSON: what is written is read as the same, and every fault has its place.
#include "models/model_file.h"

#include <sys/stat.h>

#include "models/layer_facts.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

constexpr const char* named_models[] = {
    "mlp:hidden=5/7",
    "lenet:dropout=0.25",
    "resnet20",
    "resnet8:norm=no",
    "resnet18",
    "resnet50:width=8",
    "vgg11:dropout=0.5",
    "resnext11:cardinality=4,width=2",
    "wrn-10-2:dropout=0.3",
    "preresnet11",
    "transformer:layers=2,width=24,heads=3,sequence=10",
};

/// Names, parameters and places of dropouts of all layers: their weights start as the same bits.
TEST(ModelFile, GivesEveryNamedModelBack) {
  for (const char* name : named_models) {
    SCOPED_TRACE(name);
    const Model model = make_model(name, usual_input(name), usual_classes(name));
    const std::string text = model_json(model);
    const Model again = parse_model(text, "file");
    EXPECT_EQ(model_json(again), text);
    EXPECT_EQ(again.name, model.name);
    EXPECT_EQ(again.input, model.input);
    EXPECT_EQ(again.classes, model.classes);
    EXPECT_EQ(again.shapes(), model.shapes());
    ASSERT_EQ(again.layers.size(), model.layers.size());
    EXPECT_EQ(training_work(facts_of(again, 4)), training_work(facts_of(model, 4)));
    if (parameter_count(model) > 1'000'000) continue;
    const StageRange whole{0, static_cast<int>(model.layers.size()) - 1};
    EXPECT_EQ(initial_weights(again, whole, 3), initial_weights(model, whole, 3));
    EXPECT_EQ(initial_statistics(again, whole), initial_statistics(model, whole));
  }
}

/// Every number of every kind, none of them the default.
constexpr const char* unusual = R"({"name": "mine", "input": [4, 12, 12], "layers": [
  {"name": "a", "kind": "convolution", "channels": 8, "kernel": 5, "stride": 2, "padding": 1,
   "bias": false, "groups": 2},
  {"name": "b", "kind": "batch_norm", "momentum": 0.01, "epsilon": 0.001},
  {"name": "c", "kind": "residual",
   "body": [{"name": "x", "kind": "dropout", "probability": 0.25}],
   "shortcut": [{"name": "y", "kind": "dropout", "probability": 0.75}]},
  {"name": "d", "kind": "max_pool", "kernel": 3, "stride": 1, "padding": 1},
  {"name": "e", "kind": "linear", "features": 3, "bias": false}]})";

TEST(ModelFile, ReadsEveryNumber) {
  const Model model = parse_model(unusual, "file");
  EXPECT_EQ(model.classes, 3);
  const auto& c = std::get<Convolution>(model.layers[0].kind);
  EXPECT_EQ(std::tie(c.out_channels, c.kernel, c.stride, c.padding, c.bias, c.groups),
            std::make_tuple(8, 5, 2, 1, false, 2));
  const auto& norm = std::get<BatchNorm>(model.layers[1].kind);
  EXPECT_EQ(std::tie(norm.momentum, norm.epsilon), std::make_tuple(0.01, 0.001));
  const auto& block = std::get<Residual>(model.layers[2].kind);
  const auto& x = std::get<Dropout>(block.body.at(0).kind);
  const auto& y = std::get<Dropout>(block.shortcut.at(0).kind);
  EXPECT_EQ(std::tie(x.probability, x.number), std::make_tuple(0.25, 0));
  EXPECT_EQ(std::tie(y.probability, y.number), std::make_tuple(0.75, 1));
  const auto& pool = std::get<MaxPool>(model.layers[3].kind);
  EXPECT_EQ(std::tie(pool.kernel, pool.stride, pool.padding), std::make_tuple(3, 1, 1));
  EXPECT_FALSE(std::get<Linear>(model.layers[4].kind).bias);
  EXPECT_EQ(model_json(parse_model(model_json(model), "file")), model_json(model));
}

TEST(ModelFile, LeavesOutWhatIsUsual) {
  const Model model = parse_model(
      R"({"name": "m", "input": [1, 8, 8], "layers": [
          {"name": "a", "kind": "convolution", "channels": 2},
          {"name": "b", "kind": "residual", "body": [{"name": "c", "kind": "relu"}]},
          {"name": "d", "kind": "global_average_pool"}]})",
      "file");
  EXPECT_EQ(model.classes, 2);
  EXPECT_TRUE(std::get<Convolution>(model.layers[0].kind).bias);
  EXPECT_TRUE(std::get<Residual>(model.layers[1].kind).shortcut.empty());
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ModelFile, NamesThePlaceOfEveryFault) {
  struct Fault {
    const char* from;
    const char* to;
    std::vector<const char*> message;
  };
  for (const auto& [from, to, message] : std::vector<Fault>{
           {"\"kernel\": 5", "\"kernal\": 5", {"layers[0]", "'kernal'", "'kernel'"}},
           {"\"convolution\"", "\"convolusion\"", {"layers[0].kind", "'convolution'"}},
           {"\"channels\": 8", "\"channels\": 0", {"layers[0].channels", "whole number"}},
           {"\"channels\": 8, ", "", {"layers[0]", "no 'channels'"}},
           {"\"groups\": 2", "\"groups\": 3", {"layer a", "3 groups"}},
           {"0.75", "1", {"layers[2].shortcut[0].probability", "below 1"}},
           {"\"name\": \"b\"", "\"name\": \"a\"", {"layers[1].name", "'a' is given twice"}},
           {"\"name\": \"y\"", "\"name\": \"x\"", {"layers[2].shortcut[0].name", "twice"}},
           {"[4, 12, 12]", "[4, 12]", {"input", "[channels, height, width]"}},
           {"[4, 12, 12]", "[4, 2, 2]", {"layer a", "does not fit"}},
           {"\"features\": 3", "\"features\": 1", {"2 or more classes"}},
           {"\"layers\"", "\"layer\"", {"'layer'", "'layers'"}},
           {"\"input\": [4, 12, 12]", "\"tokens\": 12", {"layer a"}},
           {"\"input\": [4, 12, 12], ", "", {"either 'input'", "'tokens'"}},
           {"\"epsilon\": 0.001", "\"epsilon\": \"small\"", {"layers[1].epsilon", "number"}},
           {"\"bias\": false}", "\"bias\": 0}", {"layers[4].bias", "true or false"}},
           {"\"body\": [{\"name\": \"x\", \"kind\": \"dropout\", \"probability\": 0.25}]",
            "\"body\": []",
            {"layers[2].body", "not empty"}},
           {"\"input\"", "\"name\": \"twice\", \"input\"", {"'name' is given twice"}},
       }) {
    const std::string found = message_of([&] { parse_model(with(unusual, from, to), "my.json"); });
    EXPECT_THAT(found, AllOf(HasSubstr("my.json"), Not(HasSubstr("\n"))));
    for (const char* part : message) EXPECT_THAT(found, HasSubstr(part)) << from;
  }
  EXPECT_THAT(message_of([] { parse_model("{\"name\":\n oops", "my.json"); }),
              HasSubstr("my.json, line 2"));
}

/// From sizes that each may be had alone.
TEST(ModelFile, RefusesWhatNoLibraryCounts) {
  for (const auto& [input, layer] : std::vector<std::pair<const char*, const char*>>{
           {"[1, 65536, 32768]", R"("linear", "features": 10)"},
           {"[1, 65536, 65536]", R"("global_average_pool")"},
           {"[65536, 65536, 65536]", R"("relu")"},
           {"[1, 60000, 30000]", R"("convolution", "channels": 9, "kernel": 1)"}}) {
    const std::string text = fmt::format(
        R"({{"name": "m", "input": {}, "layers": [{{"name": "l", "kind": {}}}]}})", input, layer);
    EXPECT_THAT(message_of([&] { parse_model(text, "my.json"); }),
                AllOf(HasSubstr("my.json"), HasSubstr("layer l"), HasSubstr("2147483647")))
        << input;
  }
}

TEST(ModelFile, IsMeantByWhatIsNoShapeOfATransformer) {
  TemporaryDirectory folder;
  struct Case {
    const char* text;
    const char* message;
  };
  for (const auto& [text, message] :
       {Case{"[]", "[] is no object"},
        {"null", "null is no object"},
        {R"([{"name": "a"}, {"name": "b"}])", "a list is no object"},
        {"{}", "no 'name'"},
        {R"({"name": "m", "input": [1, 8, 8]})", "no 'layers'"},
        {R"({"name": "m", "input": [1, 8, 8], "layer": []})", "Did you mean 'layers'"},
        {R"({"name": "m", "input": [1, 8, 8], "layers": {}})", "layers: must be a list"},
        {R"({"name": "m", "input": [1, 8, 8], "layers": null})", "layers: must be a list"},
        {R"({"name": "m", "input": [1, 8, 8], "layers": "2"})", "layers: must be a list"}}) {
    const std::string path = folder.write("m.json", bytes_of(text)).string();
    EXPECT_TRUE(names_model_file(path)) << text;
    EXPECT_THAT(message_of([&] { read_model(path); }), AllOf(HasSubstr(path), HasSubstr(message)))
        << text;
  }
  for (const char* text :
       {R"({"layers": 2})", R"({"layers": "2", "width": 64})", R"({"heads": 2, "width": 64})"}) {
    EXPECT_FALSE(names_model_file(folder.write("t.json", bytes_of(text)).string())) << text;
  }
}

TEST(ModelFile, IsNoPipe) {
  TemporaryDirectory folder;
  const std::string path = (folder.path() / "m.json").string();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { names_model_file(path); }),
              AllOf(HasSubstr(path), HasSubstr("it is a pipe")));
}

TEST(ModelFile, IsAModelByItsPath) {
  TemporaryDirectory folder;
  const std::string path = folder.write("m.json", bytes_of(unusual)).string();
  EXPECT_TRUE(names_model_file(path));
  EXPECT_EQ(usual_input(path), (SampleShape{4, 12, 12}));
  EXPECT_EQ(usual_classes(path), 3);
  EXPECT_EQ(make_model(path, {4, 12, 12}, 3).name, "mine");
  EXPECT_THAT(message_of([&] {
                make_model(path, {4, 12, 12}, 10);
              }),
              AllOf(HasSubstr("3 classes"), HasSubstr("10")));
  EXPECT_THAT(message_of([&] {
                make_model(path + ":width=3", {4, 12, 12}, 3);
              }),
              HasSubstr("no keys"));
  const std::string shape =
      folder.write("t.json", bytes_of(R"({"name": "t", "layers": 2})")).string();
  EXPECT_FALSE(names_model_file(shape));
  EXPECT_FALSE(names_model_file("resnet20"));
  EXPECT_THAT(message_of([] { names_model_file("nowhere.json"); }), HasSubstr("nowhere.json"));
}

}  // namespace
}  // namespace unlatch::models
