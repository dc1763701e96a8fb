// Address and credentials of a daemon: the flags --daemon, --connect-timeout, --tls-ca, --tls-cert, --tls-key and
// --token-file.
#pragma once

#include <cstdint>
#include <string>

namespace varifocal::client {

struct DaemonTarget {
  std::string address = "127.0.0.1:50151";  // HOST:PORT or unix:PATH
  int64_t connect_seconds = 5;              // for a daemon that is starting; 0: one attempt
  std::string tls_ca;                       // PEM file: use TLS, and trust this authority; empty: no TLS
  std::string tls_certificate, tls_key;     // PEM files of the client certificate; both empty: none
  std::string token_file;                   // its first line is sent with every call, without TLS to this machine alone
};

}  // namespace varifocal::client
