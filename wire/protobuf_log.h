// Messages that the protobuf library prints by itself, for example about a string that is not UTF-8. By default they go to
// standard error, where a reader that stops reading blocks the thread that parses.
//
// Threads: call once, before other threads parse.
#pragma once

namespace varifocal {

void LogProtobufMessages();      // to the log (base/log.h)
void DiscardProtobufMessages();  // for programs that report a failed call themselves

}  // namespace varifocal
