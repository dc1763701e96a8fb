// Descriptors 0, 1 and 2 of this process.
#pragma once

namespace varifocal {

// Opens /dev/null for those that are closed, so that the next file that is opened does not get their number: what is written to
// standard error would go into it. Call first.
void OpenStandardStreams();

}  // namespace varifocal
