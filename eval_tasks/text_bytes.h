// Whether the bytes of a user's file are text in UTF-8; where they are not, what they are: compressed, another encoding,
// NUL bytes.
//
// Errors: INVALID_ARGUMENT with the path and the offset of the first wrong byte.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// Why no text in UTF-8 begins with these bytes, as the end of a sentence; empty when one may. A look at a few bytes.
std::string WhyNotText(absl::string_view bytes);

// The same as an error of a file, whose bytes are parsed afterwards.
absl::Status CheckBeginsText(absl::string_view path, absl::string_view bytes);
// Of every byte.
absl::Status CheckIsText(absl::string_view path, absl::string_view bytes);

}  // namespace varifocal
