# Writes a manual page from a program's help text.
#
#   cmake -DPROGRAM=build/bin/x "-DARGS=help;--all" -DNAME=x "-DSUMMARY=does this" -DOUT=x.1 -P ManPage.cmake
#
# A paragraph that begins with "NAME word: " becomes a separate section; line breaks are kept.
execute_process(COMMAND ${PROGRAM} ${ARGS} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY
                OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REPLACE "\\" "\\e" text "${text}")
string(REPLACE "-" "\\-" text "${text}")
# Escapes lines that begin with a control character of roff.
string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
string(REGEX REPLACE "(^|\n)${NAME} ([a-z]+): ([^\n]*)" "\\1.fi\n.SH ${NAME} \\2\n\\3\n.nf" text "${text}")
file(WRITE ${OUT} ".TH ${NAME} 1 \"\" \"${version}\"\n.SH NAME\n${NAME} \\- ${SUMMARY}\n.SH DESCRIPTION\n.nf\n${text}.fi\n")
