// Pieces of SVG that pictures share: the head, colours, ticks with their lines across the picture.
#pragma once

#include <string>
#include <string_view>

namespace unlatch::tools {

/// A white picture of that size; its title is for readers who cannot see it. `style` comes behind
/// that of texts and of the class "grid".
std::string svg_head(double width, double height, std::string_view title, std::string_view style);
/// Colours that are told apart, over and over.
std::string_view svg_colour(int number);
/// A line of class "grid" from y1 to y2, the text below.
std::string svg_vertical_tick(double x, double y1, double y2, std::string_view text);
/// A line of class "grid" from x1 to x2, the text on its left.
std::string svg_horizontal_tick(double y, double x1, double x2, std::string_view text);

}  // namespace unlatch::tools
