# make help lists what there is.

CONSUL   = go -C integration/consul run .
FUZZTIME ?= 10s
CASE     ?=
SECONDS  ?= 5
ROUNDS   ?= 3

.DEFAULT_GOAL := help
.PHONY: help build demo test lint fuzz bench bench-go bench-consul cover consul clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | column -t -s '|'

build: ## build the binary ./varco
	go build -trimpath -o varco .

demo: ## run the demo: two upstreams, a proxy, the page
	go run . --dev

# One package at a time (-p 1): the integration tests measure time on the same cores.
test: consul ## run all tests with the race detector
	go test -race -p 1 -timeout 20m ./...

lint: ## gofmt, go vet, staticcheck
	@bad=$$(gofmt -l .); test -z "$$bad" || { echo "gofmt -w $$bad"; exit 1; }
	go vet ./...
	go tool staticcheck ./...

fuzz: ## run every fuzz target for FUZZTIME
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file target; do \
		echo "== $$file $${target#func }"; \
		go test -run '^$$' -fuzz "^$${target#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done

bench: build ## measure varco beside nginx, HAProxy and Caddy (CASE=small,slow SECONDS=5 ROUNDS=3)
	integration/bench/install.sh
	@mkdir -p build
	go run ./integration/bench -varco ./varco -case "$(CASE)" -seconds $(SECONDS) -rounds $(ROUNDS) -json build/bench.jsonl

bench-go: ## run the Go benchmarks of all packages
	go test -run '^$$' -bench . -benchmem $$(go list ./... | grep -v /integration)

bench-consul: consul ## hold varco to its figures on a catalog of 39,000 checks
	VARCO_TEST_BIG=1 go test -count=1 -v -timeout 20m -run TestBigCatalog ./integration

cover: ## show how much of each package its own tests cover
	go test -cover $$(go list ./... | grep -v /integration)

consul: ## build the Consul that the tests run against, once; it is kept in the user's cache folder
	@$(CONSUL) >/dev/null

clean: ## remove what make built here
	rm -rf varco build
