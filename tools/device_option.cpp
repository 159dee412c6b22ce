#include "tools/device_option.h"

#include <charconv>

#include "schedules/error.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

/// "cuda" or "cuda:2".
int device_number(const Arguments& arguments, const std::string& text) {
  if (text == "cuda") return 0;
  const std::string_view rest = std::string_view(text).substr(text.find(':') + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const bool read = text.starts_with("cuda:") && error == std::errc() && number >= 0;
  if (!read || (end != rest.data() + rest.size() && *end != ',')) {
    arguments.refuse("device", text, "must be cpu, cuda or cuda:N");
  }
  require(*end != ',',
          "{} '{}': several devices are not available in this version; name one, as in cuda:{}",
          arguments.place("device"), text, number);
  return number;
}

std::string ranks_text(int ranks) {
  std::string text = "0";
  for (int r = 1; r < ranks; ++r) text += fmt::format(", {}", r);
  return text;
}

}  // namespace

std::optional<AskedDevice> asked_device(const Arguments& arguments, int ranks) {
  const std::string text = arguments.text("device", "cpu");
  const bool share = arguments.yes("share-device", false);
  const bool tf32 = arguments.yes("tf32", false);
  if (text == "cpu") {
    for (const char* name : {"share-device", "tf32"}) {
      require(!arguments.has(name), "{} is for --device cuda", arguments.place(name));
    }
    return std::nullopt;
  }
  const int number = device_number(arguments, text);
  const exec::DeviceLibrary& library = exec::cuda_library();
  const std::string versions = library.versions();
  std::string why;
  const std::vector<std::string> devices = library.devices(&why);
  require(!devices.empty(), "{} '{}': no CUDA device: {}; --device cpu works without one",
          arguments.place("device"), text, why);
  const int count = static_cast<int>(devices.size());
  require(number < count, "{} '{}': there is no device {}; CUDA counts {} device{}, from 0",
          arguments.place("device"), text, number, count, count == 1 ? "" : "s");
  const std::string& name = devices[static_cast<std::size_t>(number)];
  require(ranks == 1 || share,
          "ranks {} would all be on device {} ({}); allow it with --share-device yes",
          ranks_text(ranks), number, name);
  say(fmt::format("device {}: {}; {}", number, name, versions));
  return AskedDevice{number, name, tf32};
}

}  // namespace unlatch::tools
