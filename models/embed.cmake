# Writes a .cpp that holds a file: cmake -DINPUT=FILE -DOUTPUT=FILE.cpp -DNAME=function -P embed.cmake
# The function is unlatch::models::NAME(), declared in models/digits.h.
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REPEAT "[0-9a-fx,]" 100 line)  # twenty bytes
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}.new" "#include \"models/digits.h\"
namespace unlatch::models {
std::span<const std::uint8_t> ${NAME}() {
  static constexpr std::uint8_t bytes[] = {
${bytes}};
  return bytes;
}
}  // namespace unlatch::models
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
