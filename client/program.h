// The program `varifocal`: parses the command line, runs the verb, and converts its status to a sentence and an exit
// code.
//
// Errors: exit codes 0 done, 1 failed, 2 wrong usage; the sentence goes to standard error.
#pragma once

#include <string>
#include <vector>

#include "client/console.h"
#include "client/usage.h"

namespace varifocal::client {

// `args` without the program's name.
ExitCode RunProgram(const std::vector<std::string>& args, Console& console);

}  // namespace varifocal::client
