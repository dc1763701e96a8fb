// Answers that decline to answer, recognised by how they begin.
//
// A fixed list of English beginnings, compared in lower case after white space and with straight apostrophes: what chat
// models write instead of an answer. It counts answers to look at; scores do not depend on it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace varifocal::db {

bool IsRefusal(absl::string_view answer);

// Whether it begins with a known marker of thinking (base/thinking_markers.h).
bool BeginsWithThinking(absl::string_view answer);

}  // namespace varifocal::db
