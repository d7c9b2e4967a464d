#!/bin/sh
# Makes the secret files that docker-compose.yml mounts. A file that is there already is left as it is.
#   deploy/secrets.sh        passwords of the databases; then names the files that only you can write
#   deploy/secrets.sh demo   also made-up secrets of HubSpot, Stripe and triggers, which suit the sandbox alone
# COUNTERFOIL_SECRETS names another folder than ./secrets.
set -eu
folder=${COUNTERFOIL_SECRETS:-secrets}
umask 077
mkdir -p "$folder"
chmod 700 "$folder"

keep() {
  [ -e "$folder/$1" ] && return
  printf %s "$2" >"$folder/.$1.new"
  # Compose mounts a file with the mode that it has here, and containers run under other accounts. Nobody else on
  # this machine reaches it: the folder is closed.
  chmod 444 "$folder/.$1.new"
  mv "$folder/.$1.new" "$folder/$1"
}

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

keep store_db_password "$(random)"
keep store_owner_password "$(random)"
keep store_app_password "$(random)"
keep store_retention_password "$(random)"
keep temporal_db_password "$(random)"
url() { printf 'postgresql+psycopg://%s:%s@store-db:5432/counterfoil' "$1" "$(cat "$folder/$2")"; }
keep counterfoil_database_url "$(url counterfoil_app store_app_password)"
keep counterfoil_database_owner_url "$(url counterfoil_owner store_owner_password)"
keep counterfoil_database_retention_url "$(url counterfoil_retention store_retention_password)"

if [ "${1:-}" = demo ]; then
  keep counterfoil_hubspot_token "pat-sandbox-$(random)"
  keep counterfoil_hubspot_client_secret "$(random)"
  keep counterfoil_stripe_secret_key "sk_test_$(random)"
  keep counterfoil_standard_webhooks_secret "whsec_$(head -c 24 /dev/urandom | base64)"
fi

missing=0
for name in hubspot_token hubspot_client_secret stripe_secret_key standard_webhooks_secret; do
  [ -s "$folder/counterfoil_$name" ] && continue
  echo "missing: $folder/counterfoil_$name (write it, then chmod 444 it)" >&2
  missing=1
done
exit "$missing"
