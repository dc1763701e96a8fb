// Which code this program was built from, for the record: "0.1.0+1a2b3c4", with "-dirty" when files were changed.
#pragma once

namespace varifocal {

// Made at build time by cmake/CodeVersion.cmake; "0.1.0" where the sources are not a git checkout.
const char* CodeVersion();

}  // namespace varifocal
