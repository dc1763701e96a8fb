// The house rules that a machine can check, as functions from a file's path and text to complaints.
//
// A rule here replaces a reviewer's remark: which room may include which, where a third-party header may appear, how a
// header opens, what SQL may not say, which calls are banned and what to use instead. Every rule has a test with a text
// that breaks it, beside the test that runs it over the whole repository.
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

// Source files git would keep: .h .cc .cu .cuh .sql .proto .py .sh .md .yaml .cmake and CMakeLists.txt below `root`,
// without build trees.
std::vector<SourceFile> ReadTree(const std::string& root);

std::vector<Complaint> CheckIncludeEdges(const SourceFile& file);
std::vector<Complaint> CheckThirdPartyHomes(const SourceFile& file);
std::vector<Complaint> CheckHeaderOpening(const SourceFile& file);
std::vector<Complaint> CheckLeftovers(const SourceFile& file);
std::vector<Complaint> CheckBannedCalls(const SourceFile& file);
std::vector<Complaint> CheckSql(const SourceFile& file);
std::vector<Complaint> CheckLineLength(const SourceFile& file);

// All of the above.
std::vector<Complaint> CheckFile(const SourceFile& file);

// Rules over all files together: sources that nothing builds and headers that nothing includes; rows of the rules of
// includes that nothing needs.
std::vector<Complaint> CheckDeadFiles(const std::vector<SourceFile>& files);
std::vector<Complaint> CheckRulesAreUsed(const std::vector<SourceFile>& files);

// CheckFile of every file, and the rules over all of them.
std::vector<Complaint> CheckTree(const std::vector<SourceFile>& files);

}  // namespace varifocal::tidy
