// read_text over zlib, which passes plain files through unchanged.
#include "traces/input_file.h"

#include <zlib.h>

#include <cerrno>
#include <memory>
#include <new>
#include <system_error>

#include "schedules/error.h"
#include "schedules/readable_file.h"

namespace unlatch {

namespace {

std::string unpacked(const std::string& path, const ReadableFile& kind) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose_r);
  require(file != nullptr, "cannot read '{}': {}", path, std::generic_category().message(errno));
  constexpr std::size_t step = std::size_t{1} << 20;
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + step);
    const int count = gzread(file.get(), text.data() + before, static_cast<unsigned>(step));
    text.resize(before + static_cast<std::size_t>(count > 0 ? count : 0));
    kind.require_bounded(text.size());
    if (count <= 0) break;
  }
  int code = Z_OK;
  const char* reason = gzerror(file.get(), &code);
  require(code != Z_BUF_ERROR,
          "cannot read '{}': the compressed data ends too early, after {} "
          "unpacked bytes; the file is incomplete",
          path, text.size());
  require(code == Z_OK, "cannot read '{}': {}", path,
          code == Z_ERRNO ? std::generic_category().message(errno)
                          : fmt::format("the compressed data is damaged ({})", reason));
  return text;
}

}  // namespace

std::string read_text(const std::string& path) {
  const ReadableFile kind(path);
  try {
    return unpacked(path, kind);
  } catch (const std::bad_alloc&) {
    kind.fail_too_large();
  }
}

}  // namespace unlatch
