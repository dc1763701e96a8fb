// varifocal completion: a bash script that completes verbs, flags and file names.
#include <ostream>

#include "absl/strings/str_join.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

std::string FlagsOf(const Verb& verb) {
  FlagSet flags;
  const std::unique_ptr<Command> command = verb.make();
  command->AddFlags(flags);
  std::vector<std::string> names = flags.Names();
  for (const char* name : {"--daemon", "--format"}) names.emplace_back(name);
  return absl::StrJoin(names, " ");
}

class Complete : public Command {
 public:
  void AddFlags(FlagSet&) override {}

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    std::vector<std::string> names;
    for (const Verb* verb : Verbs()) names.emplace_back(verb->name);
    console.out << "# bash completion for varifocal\n"
                   "_varifocal() {\n"
                   "  local word=\"${COMP_WORDS[COMP_CWORD]}\" flags=\"\"\n"
                   "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                   "    COMPREPLY=($(compgen -W \"help "
                << absl::StrJoin(names, " ")
                << "\" -- \"$word\"))\n"
                   "    return\n"
                   "  fi\n"
                   "  case \"${COMP_WORDS[1]}\" in\n";
    for (const Verb* verb : Verbs()) {
      console.out << "    " << verb->name << ") flags=\"" << FlagsOf(*verb) << "\" ;;\n";
    }
    console.out << "  esac\n"
                   "  case \"$word\" in\n"
                   "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
                   "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
                   "  esac\n"
                   "}\n"
                   "complete -F _varifocal varifocal\n";
    return ExitCode::kDone;
  }
};

}  // namespace

constinit const Verb kCompletionVerb = {
    .name = "completion",
    .group = "This program",
    .summary = "print a bash script that completes verbs and flags",
    .about = "Prints the script to standard output; `cmake --install` puts it where bash-completion looks for it.",
    .examples = "source <(varifocal completion)",
    .formats = "text",
    .make = &Make<Complete>};

}  // namespace varifocal::client
