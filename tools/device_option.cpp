#include "tools/device_option.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "models/tied_head.h"
#include "schedules/error.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

/// "cuda", "cuda:2" or "cuda:0,1".
std::vector<int> device_numbers(const Arguments& arguments, const std::string& text) {
  if (text == "cuda") return {0};
  const auto refuse = [&] {
    arguments.refuse("device", text, "must be cpu, cuda or cuda:N[,N...]");
  };
  constexpr std::string_view prefix = "cuda:";
  if (!text.starts_with(prefix)) refuse();
  std::vector<int> numbers;
  const char* at = text.data() + prefix.size();
  const char* const last = text.data() + text.size();
  while (true) {
    int number = -1;
    const auto [end, error] = std::from_chars(at, last, number);
    if (error != std::errc() || number < 0) refuse();
    numbers.push_back(number);
    if (end == last) return numbers;
    if (*end != ',') refuse();
    at = end + 1;
  }
}

/// Throws Error unless every rank has a device, of its own where nobody said they may share one.
void require_room(const std::vector<int>& numbers, const std::vector<std::string>& names, int ranks,
                  bool share) {
  require(numbers.size() == 1 || static_cast<int>(numbers.size()) == ranks,
          "--device names {} devices for {} ranks; name one for all, or one for each",
          numbers.size(), ranks);
  if (share) return;
  for (const int number : numbers) {
    std::vector<int> on_it;
    for (int r = 0; r < ranks; ++r) {
      const std::size_t at = numbers.size() == 1 ? 0 : static_cast<std::size_t>(r);
      if (numbers[at] == number) on_it.push_back(r);
    }
    require(on_it.size() < 2,
            "ranks {} would all be on device {} ({}); allow it with --share-device yes",
            fmt::join(on_it, ", "), number, names[static_cast<std::size_t>(number)]);
  }
}

exec::DeviceSettings asked_settings(const Arguments& arguments) {
  exec::DeviceSettings settings;
  settings.precision = asked_precision(arguments);
  const bool fp16 = settings.precision == exec::Precision::fp16;
  require(fp16 || !arguments.has("loss-scale"), "{} is for --precision fp16",
          arguments.place("loss-scale"));
  constexpr double usual_scale = 1024, least = 1, most = 1 << 24;
  settings.loss_scale = arguments.real("loss-scale", fp16 ? usual_scale : 1, least, most);
  settings.deterministic = arguments.yes("deterministic", true);
  settings.graphs = arguments.yes("cuda-graph", false);
  settings.nccl = arguments.choice("transport", {"peer", "nccl"}) == "nccl";
  const auto limit = arguments.size("memory-limit");
  if (limit == 0) {
    arguments.refuse("memory-limit", *arguments.text("memory-limit"), "must be greater than 0");
  }
  settings.memory_limit = static_cast<std::size_t>(limit.value_or(0));
  return settings;
}

}  // namespace

exec::Precision asked_precision(const Arguments& arguments) {
  const auto& names = exec::precision_names;
  const std::string word = arguments.choice("precision", {names.begin(), names.end()});
  return static_cast<exec::Precision>(std::ranges::find(names, word) - names.begin());
}

std::vector<int> asked_device_numbers(const Arguments& arguments) {
  const std::string text = arguments.text("device", "cpu");
  return text == "cpu" ? std::vector<int>{} : device_numbers(arguments, text);
}

void require_trains_there(const Arguments& arguments, const models::Model& model) {
  require(asked_device_numbers(arguments).empty() || !models::has_tied_head(model),
          "{} '{}': model {} has a head that is tied to its embedding, which is trained on the CPU "
          "alone in this version; give it a head of its own (--model transformer:tied=no, or no "
          "\"tied\" in a model file)",
          arguments.place("device"), *arguments.text("device"), model.name);
}

std::optional<AskedDevice> asked_device(const Arguments& arguments, int ranks) {
  const std::vector<int> numbers = asked_device_numbers(arguments);
  const bool share = arguments.yes("share-device", false);
  AskedDevice asked;
  asked.settings = asked_settings(arguments);
  asked.settings.devices = numbers;
  if (numbers.empty()) {
    for (const char* name : device_options) {
      require(!arguments.has(name), "{} is for --device cuda", arguments.place(name));
    }
    return std::nullopt;
  }
  const std::string text = *arguments.text("device");
  const exec::DeviceLibrary& library = exec::cuda_library();
  const std::string versions = library.versions();
  std::string why;
  const std::vector<std::string> devices = library.devices(&why);
  require(!devices.empty(), "{} '{}': no CUDA device: {}; --device cpu works without one",
          arguments.place("device"), text, why);
  const int count = static_cast<int>(devices.size());
  std::string names;
  for (const int number : numbers) {
    require(number < count, "{} '{}': there is no device {}; CUDA counts {} device{}, from 0",
            arguments.place("device"), text, number, count, count == 1 ? "" : "s");
    names +=
        fmt::format("{}{}", names.empty() ? "" : ", ", devices[static_cast<std::size_t>(number)]);
  }
  require_room(numbers, devices, ranks, share);
  require(!asked.settings.nccl || std::set(numbers.begin(), numbers.end()).size() > 1,
          "{} nccl: all ranks are on device {}, and NCCL moves tensors between devices; leave it "
          "out or name more than one",
          arguments.place("transport"), numbers.front());
  say(fmt::format("device {}: {}; {}", fmt::join(numbers, ", "), names, versions));
  asked.name = names;
  return asked;
}

}  // namespace unlatch::tools
