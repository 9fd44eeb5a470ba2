# cmake -DFROM=file -DTO=header -DNAME=array -P EmbedBytes.cmake: the file as a C++ array of 64-bit words.
file(READ ${FROM} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR missing "(16 - ${digits} % 16) % 16")
string(REPEAT "0" ${missing} zeros)
# The values are little-endian, as are all hosts that have these GPUs.
string(REGEX REPLACE "(..)(..)(..)(..)(..)(..)(..)(..)" "0x\\8\\7\\6\\5\\4\\3\\2\\1,\n" words "${hex}${zeros}")
file(WRITE ${TO} "alignas(64) constexpr unsigned long ${NAME}[] = {\n${words}};\n")
