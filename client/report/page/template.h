// A small template engine, for HTML files with placeholders.
//
//   {{name}}        the value as text, HTML escaped; numbers as JSON writes them; null as nothing
//   {{{name}}}      the text as it is: HTML that was made elsewhere
//   {{#name}}..{{/name}}  once for each item of a list, with the item's values in front of those around it; for
//                   anything else once, unless it is missing, null, false, empty or an empty list
//   {{^name}}..{{/name}}  once exactly when {{#name}} would not be there
//   {{.}}           the item of a list of texts or numbers
//   {{>name}}       the sentence of that name in templates/sentences.txt, filled likewise and then escaped: prose that
//                   several places say; {{{>name}}} as it is
//
// A line with only {{#name}}, {{^name}} or {{/name}} is omitted. Templates are part of the program: an error in one is
// a bug and terminates it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal::report {

std::string Fill(absl::string_view text, const Json& values);

// The sentence of that name in templates/sentences.txt, as plain text.
std::string Sentence(absl::string_view name, const Json& values = Json::object());

// The beginning of a box that scrolls sideways where it is wider than the screen, also by keyboard. Boxes that are shown
// together have different labels. It ends with "</div>".
std::string ScrollBegin(absl::string_view label);

// The template of that file name in client/report/page/templates.
std::string FillTemplate(absl::string_view name, const Json& values);

}  // namespace varifocal::report
