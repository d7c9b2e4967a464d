#!/bin/sh
# The namespace and the search attributes that workers and Temporal UI need; run again it changes nothing.
# TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE say where; RETENTION is how long Temporal keeps closed executions.
set -eu

# A new namespace is known to every part of the server only some seconds after it was made.
patiently() {
  tries=30
  until "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "gave up: $*" >&2; exit 1; }
    sleep 2
  done
}

answering() { temporal operator cluster health >/dev/null; }

made() {
  temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
}

attribute() {
  known=$(temporal operator search-attribute list) || return 1
  echo "$known" | grep -qw "$1" || temporal operator search-attribute create --name "$1" --type "$2"
}

patiently answering
patiently made
for name in BusinessState BusinessKey Process ReasonCode NextOwner; do
  patiently attribute "$name" Keyword
done
patiently attribute InputVersion Int
patiently attribute BusinessDeadline Datetime
