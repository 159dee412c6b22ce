// AtomicFile over a nameless file (O_TMPFILE) or, where there is none, a temporary name.
#include "traces/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "schedules/error.h"
#include "traces/write_all.h"

namespace unlatch {

namespace {

constexpr std::size_t buffer_size = std::size_t{1} << 16;

/// Names that only the process knows, from making the file until it has its own.
struct Unfinished {
  std::mutex mutex;
  std::set<std::string> names;
};

Unfinished& unfinished() {
  static Unfinished all;
  return all;
}

/// A file descriptor that is being written, and how it gets its name.
class Target {
 public:
  explicit Target(std::string path);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  void write(const char* data, std::size_t size);
  void commit();
  const std::string& path() const& { return path_; }

 private:
  std::string temporary_name(int attempt) const;
  void open_temporary();
  void link_nameless();
  void close();

  std::string path_;   ///< as the user gave it, for messages
  std::string final_;  ///< symbolic links resolved
  std::string directory_;
  std::string temporary_;       ///< "" while the file is nameless or written directly
  std::optional<mode_t> mode_;  ///< of the file that is replaced
  bool direct_ = false;
  int descriptor_ = -1;
};

Target::Target(std::string path) : path_(std::move(path)), final_(path_) {
  require(!path_.empty(), "cannot write a file without a name");
  struct stat facts {};
  const bool exists = ::stat(path_.c_str(), &facts) == 0;
  if (exists && S_ISDIR(facts.st_mode)) fail_to_write(path_, EISDIR);
  // Replacing what stands behind these names would cut off the shell that opened it.
  const bool special = path_.starts_with("/dev/") || path_.starts_with("/proc/");
  direct_ = special || (exists && !S_ISREG(facts.st_mode));
  if (direct_) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail_to_write(path_, errno);
    return;
  }
  if (exists) {
    if (::access(path_.c_str(), W_OK) != 0) fail_to_write(path_, errno);
    mode_ = facts.st_mode & 07777;
    std::error_code ignored;
    const auto resolved = std::filesystem::canonical(path_, ignored);
    if (!ignored) final_ = resolved.string();
  }
  directory_ = directory_of(final_);
  open_temporary();
}

Target::~Target() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (temporary_.empty()) return;
  const std::lock_guard lock(unfinished().mutex);
  ::unlink(temporary_.c_str());
  unfinished().names.erase(temporary_);
}

std::string Target::temporary_name(int attempt) const {
  return fmt::format("{}.unlatch-{}-{}.tmp", directory_, ::getpid(), attempt);
}

constexpr int most_attempts = 1000;

void Target::open_temporary() {
  // A nameless file needs /proc to get its name later; it vanishes even when the process is killed.
  if (::access("/proc/self/fd", X_OK) == 0) {
    descriptor_ = ::open(directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) return;
  }
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const std::lock_guard lock(unfinished().mutex);
    std::string name = temporary_name(attempt);
    descriptor_ = ::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) unfinished().names.insert(name);
    if (descriptor_ >= 0) temporary_ = std::move(name);
    if (descriptor_ >= 0 || errno != EEXIST) break;
  }
  if (descriptor_ < 0) fail_to_write(path_, errno);
}

void Target::link_nameless() {
  const std::string nameless = fmt::format("/proc/self/fd/{}", descriptor_);
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    std::string name = temporary_name(attempt);
    if (::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = std::move(name);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail_to_write(path_, errno);
}

void Target::write(const char* data, std::size_t size) {
  write_all(descriptor_, {data, size}, path_);
}

void Target::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0 && errno != EINTR) fail_to_write(path_, errno);
}

void Target::commit() {
  if (direct_) return close();
  if (mode_ && ::fchmod(descriptor_, *mode_) != 0) fail_to_write(path_, errno);
  // Without this a power cut could leave the name on an empty file.
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL) fail_to_write(path_, errno);
  const std::lock_guard lock(unfinished().mutex);
  if (temporary_.empty()) link_nameless();
  close();
  if (::rename(temporary_.c_str(), final_.c_str()) != 0) fail_to_write(path_, errno);
  unfinished().names.erase(std::exchange(temporary_, ""));
}

}  // namespace

/// Buffers, compresses if asked, and hands on to the target.
class AtomicFile::Sink : public std::streambuf {
 public:
  explicit Sink(const std::string& path) : target_(path), buffer_(buffer_size) {
    restart();
    if (path.ends_with(".gz")) start_compression();
  }
  ~Sink() override {
    if (zip_) deflateEnd(zip_.get());
  }

  void commit() {
    require(!committed_, "'{}' was committed twice", target_.path());
    flush(true);
    setp(nullptr, nullptr);  // a later write then reaches overflow() and is refused
    committed_ = true;
    target_.commit();
  }

 protected:
  int_type overflow(int_type next) override {
    require(!committed_, "'{}' was written to after it was committed", target_.path());
    flush(false);
    if (!traits_type::eq_int_type(next, traits_type::eof())) {
      return sputc(traits_type::to_char_type(next));
    }
    return traits_type::not_eof(next);
  }

 private:
  void restart() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

  void start_compression() {
    zip_ = std::make_unique<z_stream>();
    constexpr int gzip_window = 15 + 16;  // zlib: +16 asks for a gzip header, with time 0
    constexpr int memory_level = 8;
    if (deflateInit2(zip_.get(), Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, memory_level,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      zip_.reset();
      throw std::bad_alloc();
    }
  }

  void flush(bool finish) {
    const auto size = static_cast<std::size_t>(pptr() - pbase());
    if (zip_) {
      compress(size, finish);
    } else {
      target_.write(pbase(), size);
    }
    restart();
  }

  void compress(std::size_t size, bool finish) {
    std::array<unsigned char, buffer_size> packed;
    zip_->next_in = reinterpret_cast<Bytef*>(pbase());
    zip_->avail_in = static_cast<uInt>(size);
    do {
      zip_->next_out = packed.data();
      zip_->avail_out = static_cast<uInt>(packed.size());
      deflate(zip_.get(), finish ? Z_FINISH : Z_NO_FLUSH);
      target_.write(reinterpret_cast<const char*>(packed.data()), packed.size() - zip_->avail_out);
    } while (zip_->avail_out == 0);
  }

  Target target_;
  std::vector<char> buffer_;
  std::unique_ptr<z_stream> zip_;
  bool committed_ = false;
};

AtomicFile::AtomicFile(const std::string& path)
    : std::ostream(nullptr), sink_(std::make_unique<Sink>(path)) {
  rdbuf(sink_.get());
  exceptions(std::ios::badbit);  // lets the Error of a failed write through
  imbue(std::locale::classic());
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::abandon_all() {
  unfinished().mutex.lock();  // for good
  for (const std::string& name : unfinished().names) ::unlink(name.c_str());
}

void AtomicFile::commit() {
  require(good(), "a write to this file has failed before, so it is not kept");
  sink_->commit();
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file << text;
  file.commit();
}

}  // namespace unlatch
