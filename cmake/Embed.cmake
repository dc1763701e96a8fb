# Writes OUT: a C++ source that defines varifocal::Embedded_<NAME>() over the bytes of FILES (base/embedded.h declares the type).
set(body "")
set(rows "")
set(i 0)
foreach(f ${FILES})
  file(READ ${f} hex HEX)
  string(LENGTH "${hex}" n)
  math(EXPR size "${n} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  get_filename_component(name ${f} NAME)
  string(APPEND body "const unsigned char kFile${i}_${NAME}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", reinterpret_cast<const char*>(kFile${i}_${NAME}), ${size}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT} "#include \"base/embedded.h\"\n\nnamespace varifocal {\nnamespace {\n${body}"
  "const EmbeddedFile kFiles_${NAME}[] = {\n${rows}};\n}  // namespace\n"
  "EmbeddedFiles Embedded_${NAME}() { return {kFiles_${NAME}, ${i}}; }\n}  // namespace varifocal\n")
