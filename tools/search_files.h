// Search files: all candidates of a search as CSV, and their Pareto front as a picture.
#pragma once

#include <string>

#include "tools/search_result.h"

namespace unlatch::tools {

/// One line a candidate, the best first, the refused ones last with their reason; RFC 4180. Whole
/// or not at all.
void write_search_csv(const std::string& path, const SearchResult& result);

/// An SVG of time over memory, both logarithmic, colours for staleness; those on the front are
/// filled, named and joined to the others of their staleness.
void write_search_svg(const std::string& path, const SearchResult& result);

}  // namespace unlatch::tools
