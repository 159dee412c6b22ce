#include "schedules/readable_file.h"

#include <filesystem>
#include <system_error>

#include "schedules/error.h"

namespace unlatch {

ReadableFile::ReadableFile(const std::string& path) : path_(path) {
  std::error_code ignored;
  const std::filesystem::file_type type = std::filesystem::status(path, ignored).type();
  using enum std::filesystem::file_type;
  require(type != directory, "cannot read '{}': it is a directory", path);
  require(type != character && type != block && type != socket,
          "cannot read '{}': it is a device or a socket; give a file or a pipe", path);
  is_pipe_ = type == fifo;
}

void ReadableFile::require_bounded(std::size_t bytes) const {
  constexpr std::size_t most = std::size_t{1} << 30;
  require(
      !is_pipe_ || bytes <= most,
      "cannot read '{}': it is a pipe that gives more than 1 GiB; write that to a file and give "
      "the file",
      path_);
}

void ReadableFile::fail_too_large() const {
  fail("cannot read '{}': it is too large for the memory of this machine", path_);
}

}  // namespace unlatch
