// read_text: a whole file as text, unpacked if it is gzip.
#pragma once

#include <string>

namespace unlatch {

/// The contents of a file, plain or gzip whatever its name. Throws Error for a file that is
/// missing, unreadable, no file or pipe, or too large, and for gzip data that is damaged or cut
/// off.
std::string read_text(const std::string& path);

}  // namespace unlatch
