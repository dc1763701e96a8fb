// Templates: values, escaping, lists, missing values, and lines with only a tag.
#include "client/report/page/template.h"

#include <gtest/gtest.h>

namespace varifocal::report {
namespace {

TEST(TemplateTest, ValuesAreEscapedUnlessTheyAreHtml) {
  const Json values = {{"text", "<b>&"}, {"number", 0.25}, {"nothing", nullptr}};
  EXPECT_EQ(Fill("{{text}} {{{text}}} {{number}} [{{nothing}}] [{{unknown}}]", values),
            "&lt;b&gt;&amp; <b>& 0.25 [] []");
}

TEST(TemplateTest, ListsAndConditions) {
  const Json values = {{"rows", {{{"name", "a"}}, {{"name", "b"}, {"last", true}}}},
                       {"words", {"x", "y"}},
                       {"no", false},
                       {"name", "outer"}};
  EXPECT_EQ(Fill("{{#rows}}{{name}}{{^last}},{{/last}}{{/rows}} {{name}}", values), "a,b outer");
  EXPECT_EQ(Fill("{{#words}}<{{.}}>{{/words}}", values), "<x><y>");
  EXPECT_EQ(Fill("{{#no}}yes{{/no}}{{^no}}no{{/no}}{{#unknown}}{{#rows}}z{{/rows}}{{/unknown}}", values), "no");
  EXPECT_EQ(Fill("{{#rows}}{{#words}}{{name}}{{.}} {{/words}}{{/rows}}", values), "ax ay bx by ");
}

TEST(TemplateTest, LinesOfTagsAloneAreNotThere) {
  EXPECT_EQ(Fill("<ul>\n{{#items}}\n  <li>{{.}}\n{{/items}}\n</ul>\n", {{"items", {1, 2}}}),
            "<ul>\n  <li>1\n  <li>2\n</ul>\n");
}

TEST(TemplateTest, ASentenceIsSaidInTemplatesAndAlone) {
  EXPECT_EQ(Sentence("no_verdict_at", {{"list", "1K <&>"}}), "No verdict at 1K <&>.") << "plain text";
  EXPECT_EQ(Fill("{{#a}}<b>{{>no_verdict_at}}</b>{{/a}}", {{"a", true}, {"list", "<i>"}}),
            "<b>No verdict at &lt;i&gt;.</b>");
}

}  // namespace
}  // namespace varifocal::report
