// What all that writes files shares: all of the data, or an Error that says which file and why.
#pragma once

#include <string>
#include <string_view>

namespace unlatch {

/// Throws Error for an errno of a failed write, with what helps against it.
[[noreturn]] void fail_to_write(const std::string& path, int code);

/// "./" or what stands up to the last slash of the path.
std::string directory_of(const std::string& path);

/// `path` is for the message. Throws Error.
void write_all(int descriptor, std::string_view data, const std::string& path);

}  // namespace unlatch
