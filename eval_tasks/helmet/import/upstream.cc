#include "eval_tasks/helmet/import/upstream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/python/literals.h"

namespace varifocal::helmet {
namespace {

struct KnownText {
  const char* id;
  const char* function;
  int ordinal;         // among the function's literals
  const char* sha256;  // at commit 4526dfb
  const char* slots;   // in order
};

constexpr KnownText kKnownTexts[] = {
    {"qa.user", "load_qa", 3, "476c9e9268336377a23c21ac353e7b648ca737d95ec2f7ed317521ba040f3edb",
     "demos,context,question"},
    {"qa.system", "load_qa", 4, "64f89cf423ee1a167e9c8142a340d7aaef3605a56c73d30275fbdd94d098e36c", ""},
    {"qa.demo", "load_qa", 30, "1b38c6a2e6a8dbbea837771ddd1b222d5705df1213191d44112348d187df6e0c",
     "documents,question,answer"},
    {"qa.passage", "load_qa", 31, "1deb2084d14128be9fdd69ccf03333b4705ed1198aa23bcc56b96b501077027f", "title,text"},
    {"json_kv.user", "load_json_kv", 0, "25551642cae952ec63e23625ac64b0b70ed9c0e7619e6df9e898d80d5691420e",
     "context,demos,question"},
    {"json_kv.system", "load_json_kv", 1, "9f26c3129576c1911add4d702e58558a8934767b7aaa03b253e524cfde57d5dd", ""},
    {"json_kv.demo", "load_json_kv", 14, "afc43d922905af2c65b01ef46de394c3e88ee41e99501cbaa7d021bc0a78f427",
     "key,value"},
    {"length.postfix", "truncate_llama2", 0, "f68b9c126ced97a7eb1c2ba7e12687bc686697e7c1768ce9fd7289e9f05387ab", ""},
    {"narrativeqa.user", "load_narrativeqa", 0, "c2d5faf4e03db5fa8ea35a8b86ce6d446ae1819082efeccba1e6a4f7ee4d9306",
     "demo,context,question"},
    {"narrativeqa.system", "load_narrativeqa", 1, "64f89cf423ee1a167e9c8142a340d7aaef3605a56c73d30275fbdd94d098e36c",
     ""},
    {"narrativeqa.demos_begin", "load_narrativeqa", 23,
     "45f49089f5c92fbb9a482177d956b8980feff8ab7f02b148895e79e7e30edc9a", ""},
    {"narrativeqa.demo", "load_narrativeqa", 25, "02206ba91c6643ee63b37567b0aec1f24c672ec4200bd9cb5d2bb7de6f9c4699",
     "ex['question']['text'],ex['answers'][0]['text']"},
    {"narrativeqa.demos_end", "load_narrativeqa", 27,
     "fe18ac768a9ff008ef2f7031709d0a0870ef1adef351e97ce9f43e937ac14da0", ""},
    {"multi_lexsum.user", "load_multi_lexsum", 3, "ffdb9f17d1cdafcb0714694b225088435ec281dd9eb63762b80d99b57fa45f89",
     "demo,context"},
    {"multi_lexsum.system", "load_multi_lexsum", 4, "23e0248aa91fc8c0f7a07b66f41a991d47df3bac3cc311508f9d0e82220df719",
     ""},
    {"multi_lexsum.demos_begin", "load_multi_lexsum", 12,
     "e1ba5c476a78215f1f7853797a3a49376dc265ec8815d05cbb49247bcc703b4d", ""},
    {"multi_lexsum.demo", "load_multi_lexsum", 14, "addbe8add890754c334817622e2e1c6d7a2bf96d3d5f078f01af17910170cb72",
     "0"},
    {"multi_lexsum.demos_end", "load_multi_lexsum", 16,
     "41645f2ce93e0e7ff58ecd4d7d64f2045c3af8d2db987403b6a2e1ad304bcc1f", ""},
    {"msmarco.user", "load_msmarco_rerank", 0, "448802253034df979c56b96febc3c7e1db7500eac10c9aa153c97a291e44c7f8",
     "demos,context,question"},
    {"msmarco.system", "load_msmarco_rerank", 1, "3fb115e548cf76f8fb610bffbd75163367fe1fffed6665dc6233f3628fe35624",
     ""},
    {"msmarco.titled_passage", "load_msmarco_rerank", 15,
     "b4c2ad075379b98b87878ddca38f3f6f117a5d2c407e86fd75aca0f1cb055b0d", "id,title,text"},
    {"msmarco.passage", "load_msmarco_rerank", 18, "d88a4bca472d1265745dae4219a8f82358f46fac887d0ee1346d8e74ef65cfe9",
     "id,text"},
    {"msmarco.demo_end", "load_msmarco_rerank", 39, "bfda0b42821efd10f4c02ccbeb4486b6e72abae44358f891ee81b206063612bd",
     "d['query'],ranking"},
    {"icl.item", "load_icl", 45, "d95fdcf48f017d92db90624fbb037d09b7ec2a95675e3c1b08f9100f439a587c", "text,label"},
    {"icl.user", "load_icl", 46, "60f79f2cf83262474349b472ef8f43186f7ea5b09ca682705dbef68638617ccc",
     "context,question"},
    {"icl.system", "load_icl", 47, "efdf93f58c4a7b2224ac19e4221fcfdaf0f879de7217702bb7cae4b7c62fe0eb", ""},
    {"ruler_mv.user", "load_ruler", 7, "b373c00e238df12bea974d3fdc4ffebcc0f04600885640250040e3c27169216f",
     "type_needle_v,type_needle_v,context,type_needle_v,query"},
    {"ruler_mv.system", "load_ruler", 8, "b34f1d2c8a60870c839c07c4b2d649d57049da1d1e423edab3507d71059afcc5",
     "type_needle_v,query"},
    {"ruler_niah.user", "load_ruler", 10, "c691fb1e2fb9eb3e2a6884fb5c5408e26917eea432b3ea232b2044ad9eec860e",
     "type_needle_v,type_needle_v,context,type_needle_v,query"},
    {"ruler_niah.system", "load_ruler", 11, "7744f7303254e2162c296cd032e18ace6fb565115d23d5e181844f0c0c80fc09",
     "type_needle_v,query"},
    {"ruler_vt.user", "load_ruler", 13, "d2911fd912af98f3d170e1642597aba48808f2910dc47cc5bf07034be64ee095",
     "example,context,query"},
    {"ruler_vt.system", "load_ruler", 14, "f5f98765403639fb73181b18aea011f23d7b18c01a166fb8716c4bfe6380a84a",
     "num_v,query"},
    {"ruler_cwe.user", "load_ruler", 16, "75b5cecbd36f740fa264b639ba4b42b89bb624d3e0a2fae1d2199709654e90d0",
     "example,context"},
    {"ruler_cwe.system", "load_ruler", 17, "26d14cd244ae432edd6aa3b20677e4589d539db590859d211c24a29bfc027c18", ""},
    {"ruler_fwe.user", "load_ruler", 19, "a48b510fbef346d256c8f75df04442b7ad1b124f54dfb7e1b8445d2d2a6ccd5c", "context"},
    {"ruler_fwe.system", "load_ruler", 20, "e31ea70870f29813823d1ad5c2996cadac88fd30d0efc747da6f1e43f8929c23", ""},
    {"ruler_qa.user", "load_ruler", 22, "5fde1b952a904dcdca68ea5e92d2311a89df3575de83035c1ab81de52a5a3409",
     "context,question"},
    {"ruler_qa.system", "load_ruler", 23, "64f89cf423ee1a167e9c8142a340d7aaef3605a56c73d30275fbdd94d098e36c", ""},
    {"alce.user", "load_alce", 4, "90e47cb9b680ede41bdae63d3dc76199c3ec55a074fd05224364db7913f187d8",
     "demo_text,instruction,question,context"},
    {"alce.system", "load_alce", 5, "64f89cf423ee1a167e9c8142a340d7aaef3605a56c73d30275fbdd94d098e36c", ""},
    {"infbench_qa.user", "load_infbench", 12, "bf0e8dcc63d310f9c2b2b9d1310a549c00702b283ea0f1076970e70db9a916ef",
     "demo,context,question"},
    {"infbench_qa.system", "load_infbench", 13, "64f89cf423ee1a167e9c8142a340d7aaef3605a56c73d30275fbdd94d098e36c", ""},
    {"infbench_choice.user", "load_infbench", 16, "ec29cc1ceb728b4fba956548dd7bab194b8c4390db293726b0f52e15322d9861",
     "demo,context,question,options"},
    {"infbench_choice.system", "load_infbench", 17, "64f89cf423ee1a167e9c8142a340d7aaef3605a56c73d30275fbdd94d098e36c",
     ""},
    {"infbench_choice.options", "load_infbench", 37, "69ef355674bcaaca457009bf6770891d078087264895a5fa057f888d2cf2a1bc",
     "0,1,2,3"},
    {"infbench_sum.user", "load_infbench", 28, "db95d67bf325ca633fc9ba5f4d663e3073224557d6890af631b22807234789a6",
     "demo,context"},
    {"infbench_sum.system", "load_infbench", 29, "23e0248aa91fc8c0f7a07b66f41a991d47df3bac3cc311508f9d0e82220df719",
     ""},
    {"infbench_qa.demo", "load_infbench", 48, "e584c06ddd2650c238e25a76685ab9e9670c7febae48f2d52ea01812ad54193c",
     "question,answer[0]"},
    {"infbench_choice.demo", "load_infbench", 51, "5db304dbec16c640429035c29a0ecde00b52ffa909843877448311222fc3879e",
     "question,options,answer[0]"},
    {"infbench_sum.demo", "load_infbench", 55, "b45127fe2bbdc0155f3b401cf3b230ba3a06a1a282b38368c597f03f6376f8c2",
     "x['answer'][0].strip()"},
    {"infbench.demos", "load_infbench", 57, "75693ff494ee6c61926782f3aa490f16eafdd9cb567d88052aa98cb2de934138", "demo"},
};

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

}  // namespace

absl::StatusOr<std::vector<PythonLiteral>> PythonLiterals(absl::string_view source) {
  std::vector<PythonLiteral> literals;
  std::string function;
  int line = 1;
  for (size_t at = 0; at < source.size();) {
    const bool at_line_start = at == 0 || source[at - 1] == '\n';
    if (at_line_start &&
        (absl::StartsWith(source.substr(at), "def ") || absl::StartsWith(source.substr(at), "class "))) {
      at = source.find(' ', at) + 1;
      const size_t begin = at;
      while (at < source.size() && IsNameCharacter(source[at])) ++at;
      function = std::string(source.substr(begin, at - begin));
    } else if (source[at] == '#') {
      at = std::min(source.find('\n', at), source.size());
    } else if (source[at] == '"' || source[at] == '\'') {
      size_t prefix = at;
      while (prefix > 0 && IsNameCharacter(source[prefix - 1])) --prefix;
      const std::string letters = absl::AsciiStrToLower(source.substr(prefix, at - prefix));
      const size_t begin = at;
      ASSIGN_OR_RETURN(std::string text, Annotate(ReadPythonString(source, at, absl::StrContains(letters, 'r')),
                                                  absl::StrCat("line ", line)));
      literals.push_back({function, line, std::move(text)});
      line += std::count(source.begin() + begin, source.begin() + at, '\n');
    } else {
      line += source[at] == '\n';
      ++at;
    }
  }
  return literals;
}

absl::StatusOr<UpstreamTexts> UpstreamTexts::Read(const std::string& checkout) {
  const std::string path = absl::StrCat(checkout, "/data.py");
  ASSIGN_OR_RETURN(const std::string source, ReadFile(path, kConfigFile));
  ASSIGN_OR_RETURN(std::vector<PythonLiteral> literals, Annotate(PythonLiterals(source), path));
  std::map<std::string, std::vector<PythonLiteral>> by_function;
  for (PythonLiteral& literal : literals) by_function[literal.function].push_back(std::move(literal));
  UpstreamTexts texts;
  texts.data_py_sha256_ = Sha256Hex(source);
  for (const KnownText& known : kKnownTexts) {
    const std::vector<PythonLiteral>& candidates = by_function[known.function];
    const auto exact = std::find_if(candidates.begin(), candidates.end(), [&](const PythonLiteral& literal) {
      return Sha256Hex(literal.text) == known.sha256;
    });
    if (exact != candidates.end()) {
      texts.texts_[known.id] = exact->text;
      continue;
    }
    TextChange change{known.id, "", ""};
    if (static_cast<size_t>(known.ordinal) >= candidates.size()) {
      change.message = absl::StrCat(path, ": ", known.function, " has no string constant number ", known.ordinal + 1,
                                    ", which was the text ", known.id);
    } else {
      const PythonLiteral& literal = candidates[known.ordinal];
      const absl::StatusOr<Template> form = Template::Parse(literal.text);
      const std::vector<std::string> expected = absl::StrSplit(known.slots, ',', absl::SkipEmpty());
      const std::string place = absl::StrCat(path, ":", literal.line, ": the text ", known.id);
      if (!form.ok() || form->slots() != expected) {
        change.message = absl::StrCat(place, " must have the slots ", absl::StrJoin(expected, ", "), ", and has ",
                                      form.ok() ? absl::StrJoin(form->slots(), ", ") : "unpaired braces");
      } else {
        change.sha256 = Sha256Hex(literal.text);
        change.message =
            absl::StrCat(place, " has SHA-256 ", change.sha256, ", not ", known.sha256, " as at commit 4526dfb");
        texts.texts_[known.id] = literal.text;
      }
    }
    texts.changes_.push_back(std::move(change));
  }
  return texts;
}

absl::StatusOr<std::string> UpstreamTexts::Text(const std::string& id) const {
  const auto found = texts_.find(id);
  if (found != texts_.end()) return found->second;
  for (const TextChange& change : changes_) {
    if (change.id == id) return absl::InvalidArgumentError(change.message);
  }
  return Internal("no text is called ", id);
}

absl::StatusOr<Template> UpstreamTexts::Form(const std::string& id) const {
  ASSIGN_OR_RETURN(const std::string text, Text(id));
  return Template::Parse(text);
}

}  // namespace varifocal::helmet
