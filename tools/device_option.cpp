#include "tools/device_option.h"

#include <charconv>

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

/// Throws Error where ranks would share a device that nobody said they may share.
void require_room(const std::vector<int>& numbers, const std::vector<std::string>& names,
                  int ranks) {
  require(numbers.size() == 1 || static_cast<int>(numbers.size()) == ranks,
          "--device names {} devices for {} ranks; name one for all, or one for each",
          numbers.size(), ranks);
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

}  // namespace

std::vector<int> asked_device_numbers(const Arguments& arguments) {
  const std::string text = arguments.text("device", "cpu");
  return text == "cpu" ? std::vector<int>{} : device_numbers(arguments, text);
}

std::optional<AskedDevice> asked_device(const Arguments& arguments, int ranks) {
  const std::vector<int> numbers = asked_device_numbers(arguments);
  const bool share = arguments.yes("share-device", false);
  const bool tf32 = arguments.yes("tf32", false);
  if (numbers.empty()) {
    for (const char* name : {"share-device", "tf32", "memory-limit"}) {
      require(!arguments.has(name), "{} is for --device cuda", arguments.place(name));
    }
    return std::nullopt;
  }
  const std::string text = *arguments.text("device");
  const auto limit = arguments.size("memory-limit");
  if (limit == 0) {
    arguments.refuse("memory-limit", *arguments.text("memory-limit"), "must be greater than 0");
  }
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
  if (!share) require_room(numbers, devices, ranks);
  say(fmt::format("device {}: {}; {}", fmt::join(numbers, ", "), names, versions));
  return AskedDevice{numbers, names, tf32, static_cast<std::size_t>(limit.value_or(0))};
}

}  // namespace unlatch::tools
