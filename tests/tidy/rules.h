// Machine-checked style rules, as functions from a file's path and text to complaints.
//
// Rules: allowed includes between rooms, allowed locations of third-party headers, opening comments of headers, banned
// SQL, banned calls and their replacements, banned wording and pipes. Every rule has a test with a text that violates it, besides
// the test that runs it over the whole repository.
#pragma once

#include <string>
#include <vector>

namespace varifocal::tidy {

struct SourceFile {
  std::string path;  // from the repository root, with forward slashes
  std::string text;
};

struct Complaint {
  std::string path;
  int line;  // from 1
  std::string message;
};

// Source files: .h .cc .cu .cuh .sql .proto .py .sh .md .yaml .cmake and CMakeLists.txt below `root`,
// without build trees.
std::vector<SourceFile> ReadTree(const std::string& root);

std::vector<Complaint> CheckIncludeEdges(const SourceFile& file);
std::vector<Complaint> CheckThirdPartyHomes(const SourceFile& file);
std::vector<Complaint> CheckHeaderOpening(const SourceFile& file);
std::vector<Complaint> CheckLeftovers(const SourceFile& file);
std::vector<Complaint> CheckBannedCalls(const SourceFile& file);
// A Mutex that no later annotation of a member names, and whose declaration has no comment with the reason.
std::vector<Complaint> CheckLocks(const SourceFile& file);
std::vector<Complaint> CheckSql(const SourceFile& file);
std::vector<Complaint> CheckLineLength(const SourceFile& file);
std::vector<Complaint> CheckWording(const SourceFile& file);  // of C++ comments
// A script's pipe into grep -q or head: with pipefail it fails when its writer has more to write than was read.
std::vector<Complaint> CheckPipes(const SourceFile& file);
// Tests that pin three words of a sentence, instead of its values (tests/support/messages.h).
std::vector<Complaint> CheckPinnedProse(const SourceFile& file);

// All of the above.
std::vector<Complaint> CheckFile(const SourceFile& file);

// Rules over all files: sources not in the build, headers not included anywhere, unused rows of the include
// rules.
std::vector<Complaint> CheckDeadFiles(const std::vector<SourceFile>& files);
// Types, functions, members and constants of headers that nothing names besides their declaration and definition, or
// nothing but tests.
std::vector<Complaint> CheckDeadNames(const std::vector<SourceFile>& files);
std::vector<Complaint> CheckRulesAreUsed(const std::vector<SourceFile>& files);

// CheckFile of every file, and the rules over all of them.
std::vector<Complaint> CheckTree(const std::vector<SourceFile>& files);

}  // namespace varifocal::tidy
