// varifocal: the command line.
#include <cstdlib>

#include "base/standard_streams.h"
#include "client/console.h"
#include "client/program.h"
#include "wire/protobuf_log.h"

int main(int argc, char** argv) {
  varifocal::OpenStandardStreams();
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // suppress gRPC's log messages on standard error
  varifocal::DiscardProtobufMessages();
  varifocal::client::Console console = varifocal::client::StandardConsole();
  return static_cast<int>(varifocal::client::RunProgram({argv + 1, argv + argc}, console));
}
