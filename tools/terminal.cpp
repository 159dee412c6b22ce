#include "tools/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "schedules/error.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

/// A file opened later would get the number of a closed standard stream and receive its text.
void occupy_closed_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    // Opened the wrong way round, so that using the stream fails as it should.
    const int mode = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    const int opened = open("/dev/null", mode);
    if (opened != stream && opened != -1) close(opened);
  }
}

bool colour(int stream) {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(stream) == 1 && (no_color == nullptr || *no_color == '\0');
}

[[noreturn]] void fail_output() {
  fail("cannot write to standard output: {}; what was printed is incomplete", std::strerror(errno));
}

/// Names from files and flags may hold control characters, which would steer a terminal.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    const bool steers = (code < 0x20 && c != '\n' && c != '\t') || code == 0x7f;
    if (steers) {
      shown += fmt::format("\\x{:02x}", code);
    } else {
      shown += c;
    }
  }
  return shown;
}

void write_line(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fputc('\n', stderr);
}

}  // namespace

void prepare_process() {
  occupy_closed_streams();
  signal(SIGPIPE, SIG_IGN);
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  // Blocked here and so in every thread started later; one thread waits for them, where removing
  // files is as safe as anywhere else.
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  std::thread([ending] {
    int received = 0;
    if (sigwait(&ending, &received) != 0) return;
    AtomicFile::abandon_all();
    say(received == SIGINT ? "interrupted; unfinished files are gone"
                           : "terminated; unfinished files are gone");
    _exit(128 + received);
  }).detach();
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_output();
}

void finish_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail_output();
}

void say(std::string_view text) { write_line(printable(text)); }

void say_error(std::string_view message) {
  const bool coloured = colour(STDERR_FILENO);
  write_line(fmt::format("{}error:{} {}", coloured ? "\x1b[1;31m" : "", coloured ? "\x1b[0m" : "",
                         printable(message)));
}

std::string bold(std::string_view text) {
  return colour(STDOUT_FILENO) ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

bool progress_is_shown() { return isatty(STDERR_FILENO) == 1; }

}  // namespace unlatch::tools
