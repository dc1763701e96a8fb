// varifocal: the command line.
#include <csignal>

#include "client/console.h"
#include "client/program.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that left (`| head`) is seen as a failed write, not as a sudden death
  varifocal::client::Console console = varifocal::client::StandardConsole();
  return static_cast<int>(varifocal::client::RunProgram({argv + 1, argv + argc}, console));
}
