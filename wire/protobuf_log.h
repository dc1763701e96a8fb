// Messages of the protobuf library, for example about a string that is not UTF-8. By default it writes them to standard
// error, which blocks the parsing thread when standard error is a full pipe.
//
// Threads: call once, before other threads parse.
#pragma once

namespace varifocal {

void LogProtobufMessages();      // to the log (base/log.h)
void DiscardProtobufMessages();  // for programs that report a failed call themselves

}  // namespace varifocal
