"""A pretended CRM (HubSpot) and provider (Stripe) as one HTTP service, with its own durable records and faults."""
