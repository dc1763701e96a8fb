// Which daemon to talk to, and how it is reached: the flags --daemon, --tls-ca, --tls-cert, --tls-key and --token-file.
#pragma once

#include <string>

namespace varifocal::client {

struct DaemonTarget {
  std::string address = "127.0.0.1:50151";  // HOST:PORT or unix:PATH
  std::string tls_ca;                       // PEM file: speak TLS, and trust this authority; empty: no TLS
  std::string tls_certificate, tls_key;     // PEM files of this caller's own certificate; both empty: none
  std::string token_file;                   // its first line goes with every call, over TLS alone
};

}  // namespace varifocal::client
