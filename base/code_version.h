// The version this program was built from, as recorded with results: "0.1.0+1a2b3c4", plus "-dirty" for modified trees.
#pragma once

namespace varifocal {

// Made at build time by cmake/CodeVersion.cmake; "0.1.0" where the sources are not a git checkout.
const char* CodeVersion();

}  // namespace varifocal
