// Random changes of a protobuf message that keep it a message: a field set to an extreme, odd or plausible value, cleared,
// repeated or removed, at any depth.
//
// Threads: any; one Random per thread.
#pragma once

#include "base/random.h"
#include "google/protobuf/message.h"

namespace varifocal {

void MutateMessage(google::protobuf::Message& message, Random& random);

}  // namespace varifocal
